"""Algorithm 1 of the paper, one step a file, and the original EM it is compared with."""
