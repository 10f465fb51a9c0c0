"""Generators of images and how they are trained (supplement, "Generative models")."""
