"""Dynamic generative memory, DGM (Ostapenko et al., CVPR 2019)."""
