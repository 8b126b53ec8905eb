import asyncio

from hamid.sched.news import News


async def test_who_waits_looks_again_at_each_telling_until_it_holds():
    news, looks = News(), []

    def is_third_look():
        looks.append(None)
        return len(looks) == 3

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(news.wait(is_third_look, timeout_s=30))
        await asyncio.sleep(0)
        news.tell()
        await asyncio.sleep(0)
        news.tell()

    assert len(looks) == 3


async def test_the_wait_ends_in_time_whether_it_holds_or_not():
    await News().wait(lambda: False, timeout_s=0.001)
