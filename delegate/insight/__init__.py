"""Show what happened and why: captures, comparisons, measurements, doctor, bring-up."""
