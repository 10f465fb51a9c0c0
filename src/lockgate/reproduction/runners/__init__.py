"""Where runs are made: in processes of this machine, or on a Ray cluster."""
