"""The operators under the names and signatures that other libraries gave them, for PyTorch tensors.

A module for each: deformable_detr, mmcv, and `accelerate`, which puts the operators into a model that is already there.
"""
