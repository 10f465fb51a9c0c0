"""Many runs for one exhibit of the paper: what is missing is run, what is finished is used again.

plan      which runs an exhibit needs, and which of them a folder holds already
local     carry runs out in processes of this machine; rays, on a Ray cluster
measure   what has to be measured on trained models afterwards
write     results beside the paper's: tables, figures, a page, REPRODUCTION.md
"""
