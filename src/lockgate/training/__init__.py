"""The only training loop, and what it needs: phases, optimiser, augmentation, devices, seeds, progress."""
