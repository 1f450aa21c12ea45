#!/usr/bin/env python3
# tries: run fifty asyncio tasks that talk through queues, and a child process
# must: finish; the event loop needs epoll and a socket pair of its own
# profile: python
# expect: exit=0 status=exited verdict=clean stdout-has="1225 from 50 tasks" stdout-has="child said hello"

import asyncio


async def worker(number, queue):
    await asyncio.sleep(0.01)
    await queue.put(number)


async def main():
    queue = asyncio.Queue()
    await asyncio.gather(*(worker(number, queue) for number in range(50)))
    numbers = [queue.get_nowait() for _ in range(queue.qsize())]
    print(sum(numbers), "from", len(numbers), "tasks")
    child = await asyncio.create_subprocess_exec(
        "echo", "hello", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await child.communicate()
    print("child said", output.decode().strip())


asyncio.run(main())
