"""What the tests of MCP share that use the official Python SDK."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from mcp import Client
from mcp.client.sse import sse_client


@asynccontextmanager
async def connected(service, way):
    if way == "sse":
        async with Client(sse_client(f"{service.url}/sse"), mode="legacy") as client:
            yield client
    else:
        async with Client(f"{service.url}/mcp", mode=way) as client:
            yield client


def run_session(service, way, test):
    async def body():
        async with asyncio.timeout(60), connected(service, way) as client:
            await test(client, way)

    asyncio.run(body())


def session(test):
    """Run a coroutine test with each way to connect."""

    @pytest.mark.parametrize("way", ["legacy", "auto", "sse"])
    def run(service, way):
        run_session(service, way, test)

    return run


async def call(client, tool, error=False, **arguments):
    result = await client.call_tool(tool, arguments)
    assert result.is_error == error, result
    return result


def texts(result):
    return [item.text for item in result.content if item.type == "text"]
