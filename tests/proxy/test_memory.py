"""The budget: never over, never out of order, never lost."""

from __future__ import annotations

import asyncio

from s4weights.proxy.memory import MemoryBudget


async def test_a_second_one_waits_until_there_is_room():
    budget = MemoryBudget(100)
    await budget.acquire(80)
    second = asyncio.create_task(budget.acquire(30))
    await asyncio.sleep(0)
    assert not second.done()
    budget.release(80)
    await second
    assert budget.used_bytes == 30


async def test_a_small_one_does_not_overtake_a_large_one():
    budget = MemoryBudget(100)
    await budget.acquire(80)
    large = asyncio.create_task(budget.acquire(90))
    await asyncio.sleep(0)
    assert not budget.try_acquire(1)
    small = asyncio.create_task(budget.acquire(1))
    await asyncio.sleep(0)
    budget.release(80)
    await large
    await small
    assert budget.used_bytes == 91


async def test_one_larger_than_the_budget_goes_alone():
    budget = MemoryBudget(100)
    await budget.acquire(1)
    huge = asyncio.create_task(budget.acquire(1000))
    await asyncio.sleep(0)
    assert not huge.done()
    budget.release(1)
    await huge
    assert not budget.try_acquire(1)


async def test_one_that_gives_up_lets_the_next_one_in():
    budget = MemoryBudget(100)
    await budget.acquire(80)
    large = asyncio.create_task(budget.acquire(90))
    small = asyncio.create_task(budget.acquire(10))
    await asyncio.sleep(0)
    large.cancel()
    await small
    assert budget.used_bytes == 90


async def test_one_cancelled_with_room_already_given_returns_it():
    budget = MemoryBudget(100)
    await budget.acquire(80)
    waiting = asyncio.create_task(budget.acquire(90))
    await asyncio.sleep(0)
    budget.release(80)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert budget.used_bytes == 0


async def test_waiting_calls_for_relief():
    calls: list[int] = []
    budget = MemoryBudget(100, on_pressure=lambda: calls.append(1))
    await budget.acquire(100)
    assert not calls
    waiting = asyncio.create_task(budget.acquire(1))
    await asyncio.sleep(0)
    assert calls == [1]
    budget.release(100)
    await waiting


async def test_hold_gives_back_after_an_error():
    budget = MemoryBudget(100)
    try:
        async with budget.hold(60):
            raise ValueError
    except ValueError:
        pass
    assert budget.used_bytes == 0
