"""The conformance suite: thousands of generated models, the delegate against TFLite's reference.

``families`` names the cases, ``execution`` runs one, ``workers`` spreads them over processes, and
``gtest_*`` speak googletest's command line and output. Nothing here is used by the delegate itself.
"""
