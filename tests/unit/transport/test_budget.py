"""What an address may take of the server's processor before it has proved anything."""

from __future__ import annotations

from tos_notebook.transport.budget import BURST, RATE, Budget


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_address_may_take_a_burst_and_then_waits_until_it_is_paid_back() -> None:
    clock = Clock()
    budget = Budget(clock)
    budget.spend("a", BURST)
    assert budget.wait("a") == 0.0
    budget.spend("a", 0.5)
    assert abs(budget.wait("a") - 0.5 / RATE) < 1e-9
    clock.now += 0.5 / RATE
    assert budget.wait("a") < 1e-9


def test_what_one_address_takes_another_does_not_pay() -> None:
    budget = Budget(Clock())
    budget.spend("a", 10 * BURST)
    assert budget.wait("b") == 0.0


def test_what_is_given_back_was_never_taken() -> None:
    budget = Budget(Clock())
    budget.spend("a", 2 * BURST)
    budget.spend("a", -2 * BURST)
    assert budget.wait("a") == 0.0


def test_addresses_that_owe_nothing_are_forgotten() -> None:
    clock = Clock()
    budget = Budget(clock)
    for number in range(5000):
        budget.spend(f"address {number}", RATE / 100)
        clock.now += 0.001
    assert len(budget._paid) < 2000
