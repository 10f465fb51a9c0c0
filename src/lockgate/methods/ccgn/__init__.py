"""The paper: conditional channel gated networks (Abati et al., CVPR 2020), one file per idea."""
