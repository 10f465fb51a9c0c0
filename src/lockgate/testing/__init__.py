"""The contract that every method keeps, as tests for a method of one's own. In a file that pytest finds:

from lockgate.testing import method_contract

TestMine = method_contract("own_method:DERpp", options={"buffer": 20})
"""

from lockgate.testing.contract import MethodContract, method_contract
from lockgate.testing.tiny import tiny_experiment, walk

__all__ = ["MethodContract", "method_contract", "tiny_experiment", "walk"]
