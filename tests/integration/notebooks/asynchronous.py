# %% text/plain
import asyncio

async def double(n):
    await asyncio.sleep(0.01)
    return 2 * n

await double(21)
# %% stdout text/plain
async def tell(n):
    await asyncio.sleep(0.01 * n)
    print("task", n)
    return n

await asyncio.gather(*(tell(n) for n in range(3)))
# %% stdout
async def count_up():
    for n in range(3):
        yield n
async for number in count_up():
    print(number)
# %% stdout text/plain
async with asyncio.timeout(5):
    print(await asyncio.to_thread(lambda: "from a thread"))
display(await double(1))
# %% error:TimeoutError
await asyncio.wait_for(asyncio.sleep(10), 0.01)
# %% text/plain
task = asyncio.create_task(double(4))
await task
