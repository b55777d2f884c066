"""Connections between the processes of a crawl: both sides authenticate before any other message.

``FrameServer`` accepts them and ``connect`` makes them; both give a ``FrameStream``.
``SocketExchange`` is the exchange between the workers of one machine over them, ``NetworkInquiry``
asks and calls workers on other machines.
"""
