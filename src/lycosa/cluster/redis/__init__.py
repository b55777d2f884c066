"""Redis as the address pool of a cluster: its script, and what its servers must be.

Needs the extra ``redis``, so the names are imported when they are used.
"""

from typing import TYPE_CHECKING

from lycosa.base.system.lazy_imports import lazy_names

if TYPE_CHECKING:
    from lycosa.cluster.redis.pool import RedisPool
    from lycosa.cluster.redis.redis_check import RedisFinding, check_redis
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "redis_check": "RedisFinding check_redis",
            "pool": "RedisPool",
        },
    )

__all__ = ["RedisFinding", "RedisPool", "check_redis"]
