from deformkit.mx_driving import *  # noqa: F401, F403
