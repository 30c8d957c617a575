"""The version of CMakeLists.txt; scripts/checks/check_wheel.sh compares them."""

__version__ = "0.2.0"
