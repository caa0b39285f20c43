#include "app/web/status_page.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/web/reason_guide.h"
#include "app/web/status_incident.h"
#include "audit/reason.h"
#include "support/golden.h"
#include "unit/app/status_fixture.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using audit::Reason;
using testing::HasSubstr;
using testing::Not;
using Kind = audit::Record::Kind;

constexpr std::string_view kHostile = "<script>alert(1)</script>\" onload='x";

std::string front(const StatusSnapshot& snapshot) {
  return front_page(view_of(snapshot));
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// The footer has version and commit.
std::string without_footer(const std::string& page) {
  return page.substr(0, page.find("<footer>"));
}

TEST(StatusPage, an_incident_looks_like_its_golden_page) {
  IncidentBook book;
  tell_incident(book);
  const StatusSnapshot snapshot = fencing_snapshot(book);
  test::expect_golden("unit/app/golden/status_page.html", without_footer(front(snapshot)));
}

// The last ten minutes of a machine, at a glance.
TEST(StatusPage, machines_that_did_not_answer_are_shown_with_their_last_minutes) {
  StatusSnapshot snapshot = quiet_snapshot();
  snapshot.detection = StatusSnapshot::Detection{.counts = {.answers = 3}};
  EXPECT_THAT(front(snapshot), Not(HasSubstr("id=\"machines\"")));
  using cluster::Kernel;
  const WallTime now = view_of(snapshot).now;
  snapshot.detection->machines = {
      {.history = {.node = NodeName(std::string(kHostile)),
                   .last_sign = now - 34s,
                   .changes = {{now - 32s, Kernel::Unsure}, {now - 30s, Kernel::Silent}}},
       .is_confirmed = true}};
  snapshot.detection->machines_cut = 7;
  const std::string page = front(snapshot);
  EXPECT_THAT(page, HasSubstr("<h2 id=\"machines\">"));
  EXPECT_THAT(page, HasSubstr("the other replica does not hear it either"));
  EXPECT_THAT(page, HasSubstr("<code>" + std::string(56, '.') + "?xxx</code>"));
  EXPECT_THAT(page, HasSubstr("and 7 more"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
}

TEST(StatusPage, nodes_whose_fencers_do_not_work_are_named) {
  StatusSnapshot snapshot = quiet_snapshot();
  EXPECT_THAT(front(snapshot), Not(HasSubstr("id=\"fencers\"")));
  snapshot.fencers = fence::FencerCheck::Told{};
  EXPECT_THAT(front(snapshot), HasSubstr("No node was asked about yet."));
  snapshot.fencers = fence::FencerCheck::Told{.counts = {.works = 28, .broken = 8, .none = 1},
                                              .broken = {{.node = NodeName(std::string(kHostile)),
                                                          .why = std::string(kHostile),
                                                          .since = kTestNow - 3min}},
                                              .broken_cut = 7};
  const std::string page = front(snapshot);
  EXPECT_THAT(page, HasSubstr("Nodes: 28 whose fencers work, 8 with a broken one, 1 without any."));
  EXPECT_THAT(page, HasSubstr("and 7 more"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
}

TEST(StatusPage, it_has_landmarks_headings_and_a_way_past_them) {
  const std::string page = front(quiet_snapshot());
  for (const char* part : {"<html lang=\"en\">", "<a class=\"skip\" href=\"#main\">", "<header>",
                           "<nav aria-label=", "<main id=\"main\" tabindex=\"-1\">", "<footer>",
                           "<h1 id=\"state\">", "<h2 id=\"nodes\">"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_EQ(count_of(page, "<h1"), 1U);
}

TEST(StatusPage, nothing_in_it_is_a_script_a_style_or_of_another_place) {
  IncidentBook book;
  tell_incident(book);
  const std::string page = front(fencing_snapshot(book));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("style=")));
  EXPECT_THAT(page, Not(HasSubstr("<style")));
  EXPECT_THAT(page, Not(HasSubstr("href=\"http")));
  EXPECT_THAT(page, Not(HasSubstr("src=\"http")));
}

TEST(StatusPage, every_text_from_outside_is_escaped) {
  const std::string hostile(kHostile);
  IncidentBook book;
  for (const bool of_pod : {false, true}) {
    audit::Record record = record_of(of_pod ? Kind::Verdict : Kind::IncidentOpened,
                                     of_pod ? Reason::PolicyForbids : Reason::NodeUnknown);
    record.text = hostile;
    record.policy = hostile;
    record.attachment = hostile;
    record.action = hostile;
    record.node = NodeName(hostile);
    record.incident = IncidentId(hostile);
    if (of_pod) {
      record.pod = PodRef{.space = Namespace(hostile), .name = hostile};
    }
    book.hear(record, kTestNow);
  }
  StatusSnapshot snapshot = fencing_snapshot(book);
  snapshot.nodes[0].view.name = NodeName(hostile);
  snapshot.nodes[0].view.zone = hostile;
  snapshot.replica.instance = snapshot.replica.node = snapshot.replica.server = hostile;
  snapshot.replica.holder = hostile;
  snapshot.not_ready[hostile] = hostile;
  snapshot.policies.faults = {hostile};
  snapshot.policies.unknown_keys = {hostile};
  snapshot.policies.mode_set_by = snapshot.policies.resource_version = hostile;
  policy::PolicyStatus& policy = snapshot.policies.policies[0];
  policy.name = policy.namespaces = policy.source = policy.digest = hostile;
  policy.error = policy::Rejection{
      .stage = hostile, .line = 1, .message = hostile, .hint = hostile, .quote = hostile};
  policy.warnings = {hostile};
  snapshot.policies.active_set = hostile;
  snapshot.versions[hostile] = hostile;
  snapshot.guard.max_down = snapshot.guard.window = hostile;
  snapshot.guard.doubts = {hostile};
  for (const std::string& page :
       {front(snapshot), incident_page(view_of(snapshot), *snapshot.under_way[0])}) {
    EXPECT_GT(count_of(page, "&lt;script&gt;alert(1)&lt;/script&gt;&quot; onload=&#39;x"), 5U);
    EXPECT_EQ(count_of(page, "<script"), 0U);
    EXPECT_EQ(count_of(page, "\" onload"), 0U);
    EXPECT_EQ(count_of(page, "onload='"), 0U);
  }
}

TEST(StatusPage, it_loads_itself_again_unless_it_is_told_not_to) {
  const StatusSnapshot snapshot = quiet_snapshot();
  StatusView view = view_of(snapshot);
  EXPECT_THAT(front_page(view), HasSubstr("<meta http-equiv=\"refresh\" content=\"10\">"));
  EXPECT_THAT(front_page(view), HasSubstr("?refresh=off\">Pause</a>"));
  view.refreshes = false;
  EXPECT_THAT(front_page(view), Not(HasSubstr("http-equiv=\"refresh\"")));
  EXPECT_THAT(front_page(view), HasSubstr(">Go on</a>"));
}

TEST(StatusPage, each_action_has_words_of_its_own) {
  for (const auto& [action, words] :
       std::map<std::string, std::string>{{"delete_attachment", "volume attachment"},
                                          {"release_volume", "release of the volume"},
                                          {"set_quarantine", "our taint on the node"},
                                          {"lift_quarantine", "our taint off the node"},
                                          {"taint_out_of_service", "out-of-service on the node"}}) {
    IncidentBook book;
    tell_incident(book);
    audit::Record record = record_of(Kind::Refusal, Reason::NodeChanged);
    record.action = action;
    book.hear(record, kTestNow);
    const std::string page = front(fencing_snapshot(book));
    EXPECT_THAT(page, HasSubstr("<span class=\"muted\">" + words + "</span>")) << action;
  }
}

TEST(StatusPage, an_incident_that_is_over_stays_as_it_is) {
  IncidentBook book;
  tell_incident(book);
  book.hear(record_of(Kind::IncidentClosed, Reason::Settled), kTestNow);
  const StatusSnapshot snapshot = fencing_snapshot(book);
  const std::string page = incident_page(view_of(snapshot), *snapshot.past.at(0));
  EXPECT_THAT(page, Not(HasSubstr("http-equiv=\"refresh\"")));
  EXPECT_THAT(page, HasSubstr("It lasted"));
  EXPECT_THAT(page, HasSubstr(">settled<"));
  EXPECT_THAT(front(snapshot), HasSubstr("href=\"incidents/i1\">i1</a>"));
}

TEST(StatusPage, the_front_shows_some_pods_and_the_incident_s_own_page_all) {
  IncidentBook book;
  tell_incident(book);
  for (int i = 10; i < 60; ++i) {
    book.hear(pod_record(Kind::Verdict, Reason::PolicySkips, "more-" + std::to_string(i)),
              kTestNow);
  }
  const StatusSnapshot snapshot = fencing_snapshot(book);
  const std::string page = front(snapshot);
  EXPECT_THAT(page, HasSubstr("and 41 more</a>"));
  // The pods that need somebody come first, and those that were left alone last.
  EXPECT_LT(
      page.find(
          "data-label=\"Pod\"><span class=\"muted\">db/</span><wbr><span class=\"whole\">web-1<"),
      page.find(
          "data-label=\"Pod\"><span class=\"muted\">db/</span><wbr><span class=\"whole\">web-0<"));
  const std::string whole = incident_page(view_of(snapshot), *snapshot.under_way[0]);
  EXPECT_EQ(count_of(whole, "data-label=\"Pod\""), 53U);
  EXPECT_THAT(whole, HasSubstr("<details><summary>3 steps</summary>"));
}

TEST(StatusPage, incidents_beyond_those_that_are_told_are_counted) {
  IncidentBook book({.open = 12});
  for (int i = 10; i < 30; ++i) {
    audit::Record opened = record_of(Kind::IncidentOpened, Reason::NodeUnknown);
    opened.incident = IncidentId("i" + std::to_string(i));
    opened.node = NodeName("n" + std::to_string(i));
    book.hear(opened, kTestNow - 1min + i * 1s);
  }
  StatusSnapshot snapshot = fencing_snapshot(book);
  snapshot.open_incidents = 20;
  const std::string page = front(snapshot);
  EXPECT_EQ(count_of(page, "<article"), kIncidentsInFront);
  EXPECT_THAT(page, HasSubstr("and 10 more under way:"));
  EXPECT_EQ(count_of(page, "href=\"incidents/i"), 12U);
}

TEST(StatusPage, many_ready_nodes_are_folded_and_those_in_trouble_are_not) {
  StatusSnapshot snapshot = quiet_snapshot();
  snapshot.nodes.clear();
  snapshot.nodes.push_back({.view = node_view("bad", cluster::Readiness::False)});
  for (int i = 0; i < 30; ++i) {
    snapshot.nodes.push_back(
        {.view = node_view("n" + std::to_string(i), cluster::Readiness::True)});
  }
  snapshot.nodes_cut = 4969;
  const std::string page = front(snapshot);
  EXPECT_THAT(page, HasSubstr("<summary>30 nodes Ready</summary>"));
  EXPECT_LT(page.find("<code>bad</code>"), page.find("<summary>30 nodes"));
  EXPECT_THAT(page, HasSubstr("and 4969 more"));
}

TEST(StatusPage, what_was_rejected_says_where_and_why) {
  StatusSnapshot snapshot = quiet_snapshot();
  policy::PolicyStatus& policy = snapshot.policies.policies[0];
  policy.state = policy::PolicyStatus::State::Stale;
  policy.error = policy::Rejection{.stage = "load",
                                   .line = 12,
                                   .message = "'then' expected",
                                   .quote = "   12 |   if pod.labels.tier the"};
  const std::string page = front(snapshot);
  EXPECT_THAT(page, HasSubstr("rejected, in part or whole"));
  EXPECT_THAT(page, HasSubstr("line 12: &#39;then&#39; expected"));
  EXPECT_THAT(page, HasSubstr("<pre>   12 |   if pod.labels.tier the</pre>"));
}

TEST(ReasonGuide, every_reason_is_explained_and_can_be_linked_to) {
  const std::string page = reasons_page();
  for (const Reason reason : audit::all_reasons()) {
    EXPECT_THAT(page, HasSubstr("<tr id=\"" + std::string(audit::code(reason)) + "\">"));
  }
}

TEST(ReasonGuide, code_and_the_text_of_links_remain_of_markdown) {
  EXPECT_EQ(from_markdown("Set `a<b` and [look `here`](there.md#x), <i>").text(),
            "Set <code>a&lt;b</code> and look <code>here</code>, &lt;i&gt;");
  EXPECT_EQ(from_markdown("[open").text(), "[open");
  EXPECT_EQ(from_markdown("a `b").text(), "a <code>b</code>");
}

TEST(ReasonGuide, a_bar_inside_code_does_not_end_a_cell) {
  const auto rows = read_reasons("# x\n| code | when |\n| --- | --- |\n| `a` | `b|c` | d |\n");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].code, "a");
  EXPECT_EQ(rows[0].when, "`b|c`");
  EXPECT_EQ(rows[0].what_to_do, "d");
}

}  // namespace
}  // namespace moonfence::app
