"""The application: it sends orders and says where they are."""

import asyncio

from aiokafka import AIOKafkaProducer


async def send_orders(producer: AIOKafkaProducer, orders: list[str]) -> list[int]:
    """The offsets of the orders, one after the other."""
    return [(await producer.send_and_wait("orders", order.encode(), partition=0)).offset for order in orders]


async def place_orders_async(kafka: str, orders: list[str]) -> list[int]:
    """Send the orders so that each is in the log exactly once."""
    async with AIOKafkaProducer(bootstrap_servers=kafka, acks="all", enable_idempotence=True) as producer:
        return await send_orders(producer, orders)


def place_orders(kafka: str, orders: list[str]) -> list[int]:
    """The same for programs without an event loop."""
    return asyncio.run(place_orders_async(kafka, orders))
