"""What happened and why: captures, comparisons, measurements, explanations, doctor, bring-up."""
