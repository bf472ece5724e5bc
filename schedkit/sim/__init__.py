"""The what-if: the same roles, API and client on a virtual clock, with faults, from one seed."""
