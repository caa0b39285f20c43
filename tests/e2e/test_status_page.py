"""The status page, in a headless Chromium: what it tells in each state, by keyboard, in a narrow window, without scripts.

MOONFENCE_SCREENSHOTS=FOLDER keeps what the browser showed, as docs/images has it.
"""

import http.client
import json
import os
from pathlib import Path

import pytest

from .browser import Browser
from .kube import wait_for
from .policies import SKIPS, PolicyMap, policy_text

BRAKED = {"brake": "{maxDown: 50%}"}
HOSTILE = "<script>document.title='taken over'</script><img src=x onerror=alert(1)>"
# One pod is deleted, one kept, one waits; nothing is settled while it does.
MIXED = """
return policy {
  api = 1, name = "db", version = "1.2.0", summary = "Moves the database off dead nodes",
  select = { labels = "app=noobaa" }, trigger = { live_kubelet = true },
  pod = function(pod)
    if pod.name:sub(-1) == "0" then
      return fence.delete_pod("the node is down, and a replica is ready elsewhere")
    elseif pod.name:sub(-1) == "1" then
      return fence.forbid("it has the only complete copy")
    end
    return fence.wait("the primary is still being elected", 20)
  end,
}
"""
BROKEN = """return policy {
  api = 1, name = "db", version = "1.3.0", summary = "Moves the database off dead nodes",
  pod = function(pod)
    if pod.labels.tier the
"""
# Whether each text stands out from what is behind it, by WCAG's formula: the worst of all.
CONTRAST = """(() => {
  const rgb = (text) => (text.match(/[0-9.]+/g) || [0, 0, 0, 0]).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = rgb(getComputedStyle(at).backgroundColor);
      if (color.length < 4 || color[3] > 0) { return color; }
    }
    return [255, 255, 255];
  };
  let worst = [99, ""];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility()) { continue; }
    const [a, b] = [light(rgb(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst[0]) { worst = [ratio, element.outerHTML.slice(0, 120)]; }
  }
  return worst;
})()"""
# What is cut off at the edge of its tile or cell.
CLIPPED = """[...document.querySelectorAll(".strip > div, td, tbody th, .headline")]
  .filter((box) => box.scrollWidth > box.clientWidth + 1).map((box) => box.outerHTML.slice(0, 160))"""
FOCUS = """(() => {
  const at = document.activeElement, box = at.getBoundingClientRect(), style = getComputedStyle(at);
  return {tag: at.tagName, text: at.textContent.trim(), href: at.getAttribute("href"),
          seen: box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.left >= 0 && box.right <= innerWidth,
          marked: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2};
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture
def policies(cluster, workloads):
    return PolicyMap(cluster.client, workloads.namespace)


def address(engine, path: str = "/") -> str:
    return f"http://127.0.0.1:{engine.status_port}{path}"


def status(engine) -> dict:
    return json.loads(engine.get("/status.json", engine.status_port)[1])


def ask(engine, method: str, path: str, **headers) -> tuple:
    """(status, headers, body) as the server sends them."""
    connection = http.client.HTTPConnection("127.0.0.1", engine.status_port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def keep(page, name: str):
    folder = os.environ.get("MOONFENCE_SCREENSHOTS")
    if folder:
        page.screenshot(Path(folder) / f"{name}.png")


def look(browser, engine, name: str, *said: str, path: str = "/"):
    """Each of these texts can be read, in a wide and in a narrow window, in light and dark, without a script."""
    for width, dark in ((1200, False), (1200, True), (320, False), (320, True)):
        page = browser.page(width=width, dark=dark, scripts=False)
        page.open(address(engine, path))
        for text in said:
            assert text in page.text(), f"{text!r} is not to be read at {width}: {page.text()}"
        assert page.size()["width"] <= width, f"it scrolls sideways at {width}"
        assert page.evaluate(CLIPPED) == [], f"cut off at {width}"
        ratio, worst = page.evaluate(CONTRAST)
        assert ratio >= 4.5, f"hard to read (dark: {dark}): {ratio:.2f} {worst}"
        assert {request.split("/")[2] for request in page.requests} == {f"127.0.0.1:{engine.status_port}"}
        assert page.complaints == [] and page.evaluate("document.scripts.length") == 0
        if width == 1200 or not dark:
            keep(page, f"{name}{'-narrow' if width == 320 else ''}{'-dark' if dark else ''}")


@pytest.fixture
def trouble(cluster, make_nodes, workloads, policies, start_engine):
    """(engine, incident's id): a node is down, and its pods are deleted, kept and waited for."""
    (node,) = make_nodes(1)
    workloads.stateful_set("db", 3, labels={"app": "noobaa"}, toleration_seconds=600)
    workloads.stateful_set("cache", 1, labels={"app": "other"}, toleration_seconds=600)
    workloads.wait_all_running("noobaa", 3)
    make_nodes(2)
    policies.write(db=MIXED)
    engine = start_engine(policy=None, mode=None, witnessed=False, config=BRAKED)
    policies.wait_state("db", "Active")
    cluster.hollow.fail(node, "notready")
    states = {"db-0": "deleted", "db-1": "forbidden", "db-2": "waits"}

    def told():
        for incident in status(engine)["incidents"]["underWay"]:
            found = {pod["name"]: pod["state"] for pod in incident["pods"]}
            if all(found.get(name) == state for name, state in states.items()):
                return incident["id"]
        return None
    return engine, wait_for("the page tells of all three pods", told, 30)


def test_all_quiet(browser, make_nodes, policies, start_engine):
    (node, *_) = make_nodes(3)
    policies.write(db=policy_text("db", SKIPS))
    engine = start_engine(policy=None, mode=None, config=BRAKED)
    digest = policies.wait_state("db", "Active")["digest"].removeprefix("sha256:")
    wait_for("it is told", lambda: status(engine)["policies"]["policies"] and status(engine)["state"]["title"] == "All quiet")
    look(browser, engine, "status-quiet", "All quiet", "enforce", node, "all Ready", "None is under way.", "accepted", digest[:12])


def test_an_incident_under_way(browser, trouble):
    engine, incident = trouble
    said = ("deleted", "forbidden", "waits", "policy_waits", incident, "it has the only complete copy", "the primary is still being elected")
    look(browser, engine, "status-incident", "1 incident under way", *said)
    look(browser, engine, "status-incident-alone", *said, path=f"/incidents/{incident}")
    # every verdict and outcome of the audit stands there, in its words
    def told() -> set:
        page = json.loads(engine.get(f"/incidents/{incident}.json", engine.status_port)[1])
        return {(line["kind"], line["reason"], pod["name"]) for pod in page["pods"] for line in pod["lines"]}

    def recorded() -> set:
        return {(r["kind"], r["reason"], r["pod"]) for r in engine.records() if r.get("pod") and r["incident"] == incident}
    # the page is made anew once a second
    wait_for("the page says what is recorded", lambda: recorded() and told() == recorded())


def test_what_a_policy_says_is_only_text(browser, cluster, make_nodes, workloads, policies, start_engine):
    (node,) = make_nodes(1)
    workloads.stateful_set("db", 1, labels={"app": "noobaa"}, toleration_seconds=600)
    workloads.wait_all_running("noobaa", 1)
    make_nodes(2)
    policies.write(db=policy_text("db", f"fence.wait([[{HOSTILE}]], 60)", select="app=noobaa"))
    engine = start_engine(policy=None, mode=None, witnessed=False)
    policies.wait_state("db", "Active")
    cluster.hollow.fail(node, "notready")
    wait_for("it has said it", lambda: HOSTILE in engine.get("/status.json", engine.status_port)[1])
    page = browser.page(scripts=True)
    page.open(address(engine))
    assert HOSTILE in page.text() and "taken over" not in page.evaluate("document.title")
    assert page.evaluate("document.querySelectorAll('script, img[src=x], [onerror]').length") == 0
    assert page.complaints == []


def test_frozen_by_the_brake_with_a_broken_policy(browser, cluster, make_nodes, policies, workloads, start_engine):
    nodes = make_nodes(3)
    for number, node in enumerate(nodes):
        workloads.pod(f"busy-{number}", node=node)  # a node that carries nothing is not counted
    policies.write(db=policy_text("db", SKIPS))
    engine = start_engine(policy=None, mode=None, config=BRAKED)
    policies.wait_state("db", "Active")
    policies.edit(db_lua=BROKEN)
    policies.wait_state("db", "Stale")
    for node in nodes[:2]:
        cluster.hollow.fail(node, "notready")
    wait_for("the brake holds", lambda: status(engine)["state"]["title"] == "Frozen: too many nodes are down", 30)
    wait_for("an incident waits", lambda: status(engine)["guard"]["incidentsWaiting"] >= 1, 30)
    look(browser, engine, "status-frozen", "2 of 3 workers are newly down", "the limit is 50 %", "too_many_down",
         "An edit of policy db was rejected", "rejected, in part or whole", "if pod.labels.tier the")


def test_switched_off_while_too_many_are_down(browser, cluster, make_nodes, policies, workloads, start_engine):
    nodes = make_nodes(3)
    for number, node in enumerate(nodes):
        workloads.pod(f"busy-{number}", node=node)
    policies.write(db=policy_text("db", SKIPS))
    engine = start_engine(policy=None, mode=None, config=BRAKED)
    policies.wait_state("db", "Active")
    for node in nodes[:2]:
        cluster.hollow.fail(node, "notready")
    wait_for("the brake holds", lambda: status(engine)["state"]["title"] == "Frozen: too many nodes are down", 30)
    policies.edit(mode="off")
    wait_for("it is off", lambda: status(engine)["state"]["title"] == "Off: nothing is judged", 10)
    look(browser, engine, "status-off", "Off: nothing is judged", "until it is lifted", nodes[0])


def test_a_replica_that_stands_by(browser, make_nodes, policies, start_engine):
    make_nodes(3)
    policies.write(db=policy_text("db", SKIPS))
    leader = start_engine(policy=None, mode=None, elect=True, witnessed=False, config=BRAKED)
    policies.wait_state("db", "Active")
    standby = start_engine(policy=None, mode=None, elect=True, witnessed=False, config=BRAKED)
    wait_for("it knows who leads", lambda: status(standby)["state"]["title"] == "Standing by" and
             leader.name in status(standby)["state"]["text"], 30)
    look(browser, standby, "status-standby", "Standing by", "whoever acts knows of them", f"Another replica acts, and knows of incidents under way: {leader.name}")
    leader.stop()
    wait_for("it acts", lambda: status(standby)["state"]["title"] == "All quiet", 40)


def test_long_names_and_many_pods(browser, cluster, make_nodes, workloads, policies, start_engine):
    name = "a-database-with-a-name-that-is-as-long-as-they-get"  # its revisions' names have to fit into 63
    (node,) = make_nodes(1)
    workloads.stateful_set(name, 40, labels={"app": "noobaa"}, toleration_seconds=600)
    workloads.wait_all_running("noobaa", 40, seconds=120)
    make_nodes(2)
    long_reason = "because-of-a-word-that-nobody-can-break-" + "x" * 150
    policies.write(db=policy_text("db", f'fence.wait("{long_reason}", 60)', select="app=noobaa"))
    engine = start_engine(policy=None, mode=None, witnessed=False, config=BRAKED)
    policies.wait_state("db", "Active")
    cluster.hollow.fail(node, "notready")

    def told():
        found = [s for s in status(engine)["incidents"]["underWay"] if s["node"] == node]
        return found[0]["id"] if found and sum(pod["state"] == "waits" for pod in found[0]["pods"]) == 40 else None
    incident = wait_for("all of them wait", told, 40)
    look(browser, engine, "status-many", "1 incident under way", f"{name}-0", long_reason)
    look(browser, engine, "status-many-alone", *(f"{name}-{i}" for i in range(40)), path=f"/incidents/{incident}")


def test_it_is_used_by_keyboard(browser, trouble):
    engine, incident = trouble
    page = browser.page(width=320, height=640)
    page.open(address(engine, f"/incidents/{incident}?refresh=off"))
    page.press("Tab")
    assert page.evaluate(FOCUS) == {"tag": "A", "text": "Skip to the content", "href": "#main", "seen": True, "marked": True}
    page.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.open(address(engine, f"/incidents/{incident}?refresh=off"))
    reachable = page.evaluate("[...document.querySelectorAll('a[href], summary')].filter((e) => e.checkVisibility()).length")
    opened = 0
    for _ in range(reachable):
        page.press("Tab")
        focus = page.evaluate(FOCUS)
        assert focus["seen"] and focus["marked"], focus
        if focus["tag"] == "SUMMARY" and not opened:
            page.press("Enter")
            opened = page.evaluate("document.querySelectorAll('details[open]').length")
            page.press("Enter")
    assert opened == 1, "no steps of a pod could be opened"
    # a reason leads to what it means
    page.evaluate("document.querySelector('a.reason').focus()")
    before = page.loads
    page.press("Enter")
    page.wait_load(before)
    assert "What to do" in page.text() and page.evaluate("document.querySelector('tr:target') !== null")


def test_it_loads_itself_again_until_it_is_told_not_to(browser, make_nodes, start_engine):
    make_nodes(1)
    engine = start_engine()
    page = browser.page(scripts=False)
    page.open(address(engine))
    page.wait_load(page.loads, 15)
    assert page.complaints == []
    assert "http-equiv" not in ask(engine, "GET", "/?refresh=off")[2]


def test_an_incident_keeps_its_address_also_after_a_restart(browser, victims_of, start_engine):
    victims = victims_of(2)
    engine = start_engine()
    victims.fail("notready")
    victims.wait_replaced()
    past = wait_for("it is over", lambda: status(engine)["incidents"]["past"], 60)
    (incident,) = [story["id"] for story in past]
    engine.stop()
    engine.start()
    found = wait_for("it is known from its record", lambda: [
        story for story in status(engine)["incidents"]["past"] if story["id"] == incident])
    assert found[0]["fromRecord"] and found[0]["counts"]["deleted"] == 2
    look(browser, engine, "status-past", incident, "2 deleted", "done", "settled", path=f"/incidents/{incident}")


def test_it_only_reads_and_only_for_this_machine(make_nodes, start_engine):
    make_nodes(1)
    engine = start_engine()
    wait_for("there is something to see", lambda: ask(engine, "GET", "/")[0] == 200)
    for path in ("/", "/status.json", "/style.css", "/icon.svg", "/reasons"):
        code, headers, body = ask(engine, "HEAD", path)
        assert (code, body) == (200, "") and int(headers["Content-Length"]) > 200, path
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self'; img-src 'self';")
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        code, headers, _ = ask(engine, method, "/")
        assert (code, headers["Allow"]) == (405, "GET, HEAD")
    assert [ask(engine, "GET", path)[0] for path in ("/metrics", "/incidents/none", "/x")] == [404, 404, 404]
    assert ask(engine, "GET", "/status.json", Host="rebound.example:8082")[0] == 421


def test_it_can_be_turned_off(make_nodes, start_engine):
    make_nodes(1)
    engine = start_engine(status=False)
    with pytest.raises(OSError):
        ask(engine, "GET", "/")
