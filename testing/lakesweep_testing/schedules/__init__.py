"""Schedules: every order in which actors can reach the stores, one access at a time.

Actors run the embedded lake's own code. They share a ref store and an object store in memory that stop before each
access; a scheduler says who goes on. `exploring.py` goes through all orders of a small program that differ in a way that
could matter, with a crash after any step, and through orders at random beyond. `invariants.py` looks at the world after
each step, and has a quiet collection come by at the end. A schedule that did harm is told as a story (`story.py`), and
its choices, as one text, run it again.

How to write a program: one small function in a file of `programs/`. It gets a `World` with a repository `repo` and a
branch `main`, prepares what was there before (nothing of that is a step), and returns what each actor does:

    @program("rename-collect")
    def rename_beside_collection(world: World) -> dict[str, Act]:
        \"\"\"A rename moves an entry behind a collection that has passed the new place.\"\"\"
        world.upload("main", "m", "old")      # prepare: upload, delete, commit, pass_time, world.lake
        world.pass_time(days=3)

        def rename(actor: Actor) -> None:     # an actor has a server of its own: actor.lake, actor.store
            actor.lake.copying.copy(actor.repository, "main", "b", "m")
            actor.promise("main", "b", "old") # acknowledged: must be readable at the end
            actor.withdraw("main", "m")       # about to be taken away: no promise any more
            actor.lake.objects.delete(actor.repository, "main", "m")

        return {"mover": rename, "collector": collect}

An error of the lake ends its actor as refused; any other error ends the search. `@program(..., loses="why")` is for a
program whose loss is known. In a test:

    with Explorer(all_programs()["rename-collect"]) as explorer:
        count = explorer.every_schedule(5_000)           # or random_schedules(1_000, seed=1)
    assert count.harms == 0, tell(count.found[0])

A program need not be registered: `Explorer(Program("name", set_up))` takes any function. Watch out for three things.
Time stands still, unless an actor calls `pass_time` (a step that depends on all others). Actors must not talk to each
other but through the stores. What an actor does between two accesses happens at once.
"""
