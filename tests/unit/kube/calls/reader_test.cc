#include "kube/calls/reader.h"

#include "kube/objects/decode.h"
#include "unit/kube/wire_fixture.h"

namespace moonfence::kube {
namespace {

using port::Method;
using test::FakeAnswer;
using Kind = Error::Kind;

std::string pod(const std::string& name) {
  return R"({"metadata":{"name":")" + name + R"(","namespace":"ns","uid":"u-)" + name + R"("}})";
}
FakeAnswer page(const std::string& items, const std::string& token = "") {
  return {.body = R"({"kind":"PodList","metadata":{"resourceVersion":"9","continue":")" + token +
                  R"("},"items":[)" + items + "]}"};
}

struct ReaderTest : WireTest {
  Reader reader{caller};
  const std::string pods = "/prefix/api/v1/pods";
  std::string version;  // of the last list

  Result<std::vector<Pod>> list(const PodQuery& query) {
    std::optional<Result<ItemTexts>> slot;
    const CallHandle handle =
        reader.list_pods(query, [&slot](Result<ItemTexts> found) { slot = std::move(found); });
    EXPECT_FALSE(slot);
    const auto listed = wait_for(slot);
    if (!listed) {
      return failure(listed.error());
    }
    version = listed->version.text();
    std::vector<Pod> pods_found;
    for (const std::string& text : listed->texts) {
      auto pod = decode_pod_text(text);
      if (!pod) {
        return failure(pod.error());
      }
      pods_found.push_back(*std::move(pod));
    }
    return pods_found;
  }
  Result<Node> node(const std::string& name) {
    std::optional<Result<Node>> slot;
    const CallHandle handle =
        reader.get_node(NodeName(name), [&slot](Result<Node> found) { slot = std::move(found); });
    EXPECT_FALSE(slot);
    return wait_for(slot);
  }
  Result<Lease> lease(const std::string& name) {
    std::optional<Result<Lease>> slot;
    const CallHandle handle =
        reader.get_node_lease(NodeName(name), std::chrono::seconds(1),
                              [&slot](Result<Lease> found) { slot = std::move(found); });
    EXPECT_FALSE(slot);
    return wait_for(slot);
  }
  static PodQuery of(std::string name, std::string version = "") {
    PodQuery query;
    query.node = NodeName(std::move(name));
    query.not_older_than = ResourceVersion(std::move(version));
    return query;
  }
};

TEST_F(ReaderTest, a_node_is_read_from_the_store_and_not_from_a_cache) {
  http.on(Method::Get, "/prefix/api/v1/nodes/n1",
          FakeAnswer{.body = R"({"kind":"Node","metadata":{"name":"n1","uid":"u"}})"});
  const auto found = node("n1");
  ASSERT_TRUE(found) << found.error().text;
  EXPECT_NE(found->raw, nullptr);
  EXPECT_EQ(http.requests.at(0).query, "");
}

TEST_F(ReaderTest, an_answer_about_another_node_is_refused) {
  http.on(Method::Get, "/prefix/api/v1/nodes/n1",
          FakeAnswer{.body = R"({"kind":"Node","metadata":{"name":"n2","uid":"u"}})"});
  EXPECT_EQ(node("n1").error().kind, Kind::Malformed);
  EXPECT_EQ(node("../x").error().kind, Kind::Invalid);
}

TEST_F(ReaderTest, the_lease_of_a_node_is_read_within_its_limit) {
  const std::string path = "/prefix/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/";
  http.on(Method::Get, path + "n1",
          FakeAnswer{.body = R"({"metadata":{"name":"n1","uid":"u","resourceVersion":"7"},
"spec":{"leaseDurationSeconds":40,"renewTime":"2026-01-02T03:04:15.500000Z"}})"});
  http.on(Method::Get, path + "n2", FakeAnswer{.body = R"({"kind":"Lease"})"});
  http.on(Method::Get, path + "n3",
          FakeAnswer{.status = 404,
                     .body = R"({"kind":"Status","reason":"NotFound","details":{"name":"n3"}})"});
  const auto found = lease("n1");
  ASSERT_TRUE(found) << found.error().text;
  EXPECT_EQ(found->record.duration, Duration(std::chrono::seconds(40)));
  EXPECT_EQ(found->record.renewed, parse_rfc3339("2026-01-02T03:04:15.500000Z"));
  EXPECT_EQ(http.requests.at(0).query, "");
  EXPECT_EQ(http.requests.at(0).timeout, Duration(std::chrono::seconds(1)));
  EXPECT_EQ(lease("n2").error().kind, Kind::Malformed);
  EXPECT_EQ(lease("n3").error().kind, Kind::NotFound);
  EXPECT_NE(lease("n4").error().kind, Kind::NotFound);  // the plain 404 of a path not served
  EXPECT_EQ(lease("../x").error().kind, Kind::Invalid);
}

TEST_F(ReaderTest, a_watch_goes_on_from_the_version_of_the_first_page) {
  http.on(Method::Get, pods, page(pod("a"), "t1"));
  FakeAnswer last = page(pod("b"));
  last.body.replace(last.body.find("\"9\""), 3, "\"12\"");
  http.on(Method::Get, pods + "?continue=t1", last);
  ASSERT_TRUE(list(of("n1")));
  EXPECT_EQ(version, "9");
}

TEST_F(ReaderTest, pods_are_read_page_by_page_with_the_same_selectors) {
  http.on(Method::Get, pods, page(pod("a"), "t1"));
  http.on(Method::Get, pods + "?continue=t1", page("", "t2"));
  http.on(Method::Get, pods + "?continue=t2", page(pod("b") + "," + pod("c")));
  PodQuery query = of("n1");
  query.label_selector = "app=x";
  const auto found = list(query);
  ASSERT_TRUE(found) << found.error().text;
  EXPECT_EQ(found->size(), 3U);
  EXPECT_NE(found->at(0).raw, nullptr);
  EXPECT_EQ(http.count("fieldSelector=spec.nodeName%3Dn1&labelSelector=app%3Dx"), 3U);
  EXPECT_EQ(http.requests.at(0).lane, port::Lane::Bulk);
}

TEST_F(ReaderTest, a_version_the_server_lacks_is_asked_for_once) {
  http.on(Method::Get, pods, page(pod("a")));
  for (const FakeAnswer& refusal :
       {status(410, "Expired"),
        status(504, "Timeout", R"({"causes":[{"reason":"ResourceVersionTooLarge"}]})")}) {
    http.requests.clear();
    http.on(Method::Get, pods + "?resourceVersion=7", refusal);
    ASSERT_TRUE(list(of("n1", "7")));
    ASSERT_EQ(http.requests.size(), 2U);
    EXPECT_EQ(
        http.requests[0].query,
        "resourceVersion=7&resourceVersionMatch=NotOlderThan&fieldSelector=spec.nodeName%3Dn1");
    EXPECT_EQ(http.requests[1].query, "limit=500&fieldSelector=spec.nodeName%3Dn1");
  }
}

TEST_F(ReaderTest, an_expired_token_discards_what_was_read) {
  http.on(Method::Get, pods, page(pod("a") + "," + pod("b")));
  http.on(Method::Get, pods + "?limit=500", page(pod("a"), "t1"));
  http.on(Method::Get, pods + "?continue=t1", status(410, "Expired"));
  const auto found = list(of("n1"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->size(), 2U);
}

// Whoever is told of the pages, as "a b" and "…" for each that may be asked for.
struct Pages {
  std::vector<std::string> told;
  std::function<void()> go_on;

  ItemPages taking() {
    return {.first = 2, .come = [this](const ItemTexts& items, std::function<void()> next) {
              told.push_back(text_of(items) + " ...");
              go_on = std::move(next);
            }};
  }
  std::function<void(Result<ItemTexts>)> done() {
    return [this](const Result<ItemTexts>& items) {
      told.push_back(items ? text_of(*items) + " of " + items->version.text() : "failed");
    };
  }
  static std::string text_of(const ItemTexts& items) {
    std::string text;
    for (const std::string& item : items.texts) {
      const auto decoded = decode_pod_text(item);
      text += (text.empty() ? "" : " ") + (decoded ? decoded->ref.name : "?");
    }
    return text;
  }
};

TEST_F(ReaderTest, a_page_is_told_before_the_next_one_which_is_asked_for_when_it_is_wanted) {
  http.on(Method::Get, pods, page(pod("a") + "," + pod("b"), "t1"));
  http.on(Method::Get, pods + "?continue=t1", page(pod("c")));
  Pages taken;
  CallHandle handle = reader.list_pods(of("n1"), taken.done(), taken.taking());
  test::run_for(loop, std::chrono::seconds(1));
  EXPECT_EQ(taken.told, std::vector<std::string>{"a b ..."});
  ASSERT_EQ(http.requests.size(), 1U);
  EXPECT_EQ(http.requests[0].query, "limit=2&fieldSelector=spec.nodeName%3Dn1");
  taken.go_on();
  test::run_for(loop, std::chrono::seconds(1));
  EXPECT_EQ(taken.told, (std::vector<std::string>{"a b ...", "c of 9"}));
  ASSERT_EQ(http.requests.size(), 2U);
  EXPECT_EQ(http.requests[1].query, "limit=500&continue=t1&fieldSelector=spec.nodeName%3Dn1");
}

TEST_F(ReaderTest, pages_of_a_list_that_begins_anew_are_told_once_more) {
  http.on(Method::Get, pods, page(pod("a") + "," + pod("b") + "," + pod("c")));
  http.on(Method::Get, pods + "?limit=2", page(pod("a") + "," + pod("b"), "t1"));
  http.on(Method::Get, pods + "?continue=t1", status(410, "Expired"));
  Pages taken;
  CallHandle handle = reader.list_pods(of("n1"), taken.done(), taken.taking());
  test::run_for(loop, std::chrono::seconds(1));
  taken.go_on();
  test::run_for(loop, std::chrono::seconds(1));
  EXPECT_EQ(taken.told, (std::vector<std::string>{"a b ...", "a b c of 9"}));
}

TEST_F(ReaderTest, nobody_asks_for_the_next_page_of_a_list_that_was_cancelled) {
  http.on(Method::Get, pods, page(pod("a"), "t1"));
  Pages taken;
  CallHandle handle = reader.list_pods(of("n1"), taken.done(), taken.taking());
  test::run_for(loop, std::chrono::seconds(1));
  handle.reset();
  taken.go_on();
  test::run_for(loop, std::chrono::seconds(1));
  EXPECT_EQ(http.requests.size(), 1U);
}

TEST_F(ReaderTest, what_may_only_be_listed_is_there_when_the_list_of_its_name_shows_it) {
  const std::string claims = "/api/v1/namespaces/db/persistentvolumeclaims";
  const auto look = [&](const FakeAnswer& answer) {
    http.on(Method::Get, "/prefix" + claims, answer);
    std::optional<Result<ApiReply>> slot;
    const CallHandle handle = reader.get_listed(
        claims, "data", [&slot](Result<ApiReply> found) { slot = std::move(found); });
    return wait_for(slot);
  };
  const auto listed = [](const std::string& items) {
    return FakeAnswer{.body = R"({"kind":"List","items":[)" + items + "]}"};
  };
  const auto found = look(listed(R"({"metadata":{"name":"data"}})"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->body.dump(), R"({"metadata":{"name":"data"}})");
  EXPECT_EQ(http.requests.back().query, "fieldSelector=metadata.name%3Ddata");
  EXPECT_EQ(look(listed("")).error().kind, Kind::NotFound);
  EXPECT_EQ(look(FakeAnswer{.body = R"({"kind":"List","items":null})"}).error().kind,
            Kind::NotFound);
  EXPECT_EQ(look(status(404, "NotFound", R"({"name":"data"})")).error().kind, Kind::Retryable)
      << "a proxy's word on the whole collection";
  EXPECT_EQ(look(listed(R"({"metadata":{"name":"other"}})")).error().kind, Kind::Malformed);
  EXPECT_EQ(look(listed("1")).error().kind, Kind::Malformed);
  EXPECT_EQ(look(FakeAnswer{.body = "[]"}).error().kind, Kind::Malformed);
}

TEST_F(ReaderTest, half_a_list_and_a_list_with_one_bad_pod_are_no_list) {
  FakeAnswer half = page(pod("a"));
  half.body.resize(half.body.size() - 3);
  http.on(Method::Get, pods, half);
  EXPECT_EQ(list(of("n1")).error().kind, Kind::Retryable);
  http.on(Method::Get, pods, page(pod("a") + R"(,{"metadata":{"name":"x"}})"));
  EXPECT_EQ(list(of("n1")).error().kind, Kind::Malformed);
}

TEST_F(ReaderTest, pods_are_never_listed_without_a_node) {
  EXPECT_EQ(list(PodQuery{}).error().kind, Kind::Invalid);
  EXPECT_TRUE(http.requests.empty());
}

// What a list does that is taken one by one.
struct Flow {
  std::vector<std::string> steps;
  std::size_t bearable = 100;

  ItemFlow taking() {
    return {.begin = [this] { steps.emplace_back("begin"); },
            .take = [this](const std::string& text) -> Result<void> {
              if (steps.size() > bearable) {
                return failure(Error::Kind::Limit, "too many");
              }
              const auto pod = decode_pod_text(text);
              steps.push_back(pod ? pod->ref.name : pod.error().text);
              return {};
            }};
  }
  std::function<void(Result<ResourceVersion>)> done() {
    return [this](const Result<ResourceVersion>& whole) {
      steps.push_back("done " + (whole ? whole->text() : whole.error().text));
    };
  }
};

TEST_F(ReaderTest, items_are_taken_one_by_one_and_void_when_the_list_begins_anew) {
  const std::string path = "/prefix/api/v1/namespaces/db/pods";
  Flow flow;
  bool first = true;
  http.on(Method::Get, path, [&first](const test::FakeRequest& request) {
    if (request.query.find("continue") != std::string::npos) {
      first = false;
      return status(410, "Expired");
    }
    return first ? page(pod("a") + "," + pod("b"), "t1") : page(pod("c"));
  });
  CallHandle handle = reader.list_namespace_pods(Namespace("db"), "", flow.taking(), flow.done());
  test::run_for(loop, std::chrono::seconds(1));
  EXPECT_EQ(flow.steps, (std::vector<std::string>{"begin", "a", "b", "begin", "c", "done 9"}));
}

TEST_F(ReaderTest, an_empty_list_begins_too) {
  http.on(Method::Get, "/prefix/api/v1/namespaces/db/pods", page(""));
  Flow flow;
  CallHandle handle = reader.list_namespace_pods(Namespace("db"), "", flow.taking(), flow.done());
  test::run_for(loop, std::chrono::seconds(1));
  EXPECT_EQ(flow.steps, (std::vector<std::string>{"begin", "done 9"}));
}

TEST_F(ReaderTest, whoever_takes_items_may_give_the_list_up) {
  http.on(Method::Get, "/prefix/api/v1/namespaces/db/pods", page(pod("a") + "," + pod("b"), "t1"));
  Flow flow;
  flow.bearable = 1;
  CallHandle handle = reader.list_namespace_pods(Namespace("db"), "", flow.taking(), flow.done());
  test::run_for(loop, std::chrono::seconds(1));
  EXPECT_EQ(flow.steps,
            (std::vector<std::string>{"begin", "a", "done pods of namespace db: too many"}));
  EXPECT_EQ(http.requests.size(), 1U);
}

TEST_F(ReaderTest, the_pods_of_a_namespace_are_listed_wherever_they_are) {
  http.on(Method::Get, "/prefix/api/v1/namespaces/db/pods", page(pod("a")));
  Flow flow;
  CallHandle all = reader.list_namespace_pods(Namespace("db"), "", flow.taking(), flow.done());
  CallHandle one = reader.list_namespace_pods(Namespace("db"), "a", flow.taking(), flow.done());
  test::run_for(loop, std::chrono::seconds(1));
  EXPECT_EQ(flow.steps, (std::vector<std::string>{"begin", "a", "done 9", "begin", "a", "done 9"}));
  ASSERT_EQ(http.requests.size(), 2U);
  EXPECT_EQ(http.requests[0].query.find("fieldSelector"), std::string::npos);
  EXPECT_NE(http.requests[1].query.find("fieldSelector=metadata.name%3Da"), std::string::npos);
}

TEST_F(ReaderTest, a_namespace_is_never_left_out) {
  bool refused = false;
  CallHandle handle = reader.list_namespace_pods(
      Namespace(), "a", Flow().taking(),
      [&refused](const Result<ResourceVersion>& whole) { refused = !whole; });
  test::run_for(loop, std::chrono::seconds(1));
  EXPECT_TRUE(refused);
  EXPECT_TRUE(http.requests.empty());
}

TEST_F(ReaderTest, a_list_may_be_cancelled_inside_its_callback_and_between_pages) {
  http.on(Method::Get, pods, page(pod("a"), "t1"));
  FakeAnswer second = page("");
  second.delay = std::chrono::seconds(5);
  http.on(Method::Get, pods + "?continue=t1", second);
  CallHandle handle;
  int calls = 0;
  const auto done = [&handle, &calls](const Result<ItemTexts>&) {
    ++calls;
    handle.reset();
  };
  handle = reader.list_pods(of("n1"), done);
  test::run_for(loop, std::chrono::seconds(1));
  handle.reset();
  test::run_for(loop, std::chrono::seconds(10));
  EXPECT_EQ(calls, 0);
  handle = reader.list_pods(of("n1"), done);
  test::run_for(loop, std::chrono::seconds(10));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace moonfence::kube
