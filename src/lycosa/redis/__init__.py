"""Redis as the address pool of a cluster: its script, and what its servers must be.

Needs the extra ``redis``, so the names are imported when they are used.
"""

from typing import TYPE_CHECKING

from lycosa.system.late_names import late_names

if TYPE_CHECKING:
    from lycosa.redis.check import RedisFinding, check_redis
    from lycosa.redis.pool import RedisPool
else:
    __getattr__ = late_names(
        __name__,
        {
            "check": "RedisFinding check_redis",
            "pool": "RedisPool",
        },
    )

__all__ = ["RedisFinding", "RedisPool", "check_redis"]
