"""Multi-scale deformable attention in JAX: compiled, mapped, differentiated."""

import jax
from jax import numpy as jnp

import deformkit

shapes = jnp.array([[50, 40], [25, 20]])  # (H, W) of each level
starts = jnp.array([0, 50 * 40])  # its first cell
keys = jax.random.split(jax.random.key(0), 3)
value = jax.random.normal(keys[0], (1, 50 * 40 + 25 * 20, 8, 32))  # batch, cells, heads, channels
locations = jax.random.uniform(keys[1], (1, 300, 8, 2, 4, 2))  # batch, queries, heads, levels, points, (x, y) in 0 .. 1
scores = jax.random.normal(keys[2], (1, 300, 8, 2, 4))


@jax.jit
@jax.value_and_grad
def loss(scores: jax.Array) -> jax.Array:
    weights = jax.nn.softmax(scores, (-2, -1))
    return (deformkit.multi_scale_deformable_attn(value, shapes, starts, locations, weights) ** 2).mean()


before, gradient = loss(scores)
after, _ = loss(scores - 1e3 * gradient)
print(before, after)
assert after < before
