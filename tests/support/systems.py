"""What only some systems have."""

from __future__ import annotations

import os

import pytest

posix = pytest.mark.skipif(os.name != "posix", reason="wants signals and fork, which this system has not")
