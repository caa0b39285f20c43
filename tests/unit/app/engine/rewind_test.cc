#include "app/engine/rewind.h"

#include <algorithm>
#include <string>
#include <vector>

#include "unit/kube/wire_fixture.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using port::Method;
using test::FakeAnswer;

struct Leads final : fence::Leadership {
  [[nodiscard]] std::optional<Moment> acts_until() const override { return Moment::max(); }
};

struct NobodyListens final : kube::WatchListener {
  void on_init() override {}
  void on_init_apply(const nlohmann::json& /*object*/) override {}
  void on_init_done() override {}
  void on_apply(const nlohmann::json& /*object*/) override {}
  void on_delete(const nlohmann::json& /*object*/) override {}
};

struct Heard final : kube::CallObserver {
  explicit Heard(Rewind& given) : rewind(given) {}
  void on_exchange(port::Method /*method*/, int /*status*/, Duration /*took*/,
                   std::optional<WallTime> /*server_date*/) override {}
  void on_went_back() override { rewind.heard(); }
  Rewind& rewind;
};

struct RewindTest : kube::WireTest {
  const std::string path = "/prefix/api/v1/nodes";
  const std::string maps = "/prefix/api/v1/namespaces/fence/configmaps";
  test::FakeRandom random;
  Leads leads;
  NobodyListens nobody;
  kube::Watcher nodes{loop,  caller, random, log, {.resource = "nodes", .path = "/api/v1/nodes"},
                      nobody};
  fence::Journal journal{
      {loop, caller, random, log, leads}, Namespace("fence"), "us", [] { return WallTime(); }};
  Rewind rewind{log};
  Heard heard{rewind};
  std::vector<std::string> done;

  RewindTest() { caller.observe(&heard); }
  ~RewindTest() override { caller.observe(nullptr); }
  RewindTest(const RewindTest&) = delete;
  RewindTest& operator=(const RewindTest&) = delete;

  static FakeAnswer list_at(const std::string& version) {
    return {.body = R"({"kind":"List","metadata":{"resourceVersion":")" + version +
                    R"("},"items":[]})"};
  }
  void pass(Duration time) {
    for (const Moment end = loop.now() + time; loop.now() < end;) {
      test::run_for(loop, 1s);
      rewind.look({.nodes = nodes,
                   .policies = nullptr,
                   .journal = journal,
                   .drop =
                       [this] {
                         done.emplace_back("drop");
                         journal.begin_anew();
                       },
                   .take_up =
                       [this] {
                         done.emplace_back("take up");
                         journal.read([](const auto& /*found*/) {});
                       }},
                  loop.now());
    }
  }
};

// One collection had gone back, and the replica was ready all the while.
TEST_F(RewindTest, it_lasts_until_all_was_listed_anew_and_the_records_were_read) {
  http.on(Method::Get, path, list_at("500"));
  http.on(Method::Get, path + "?watch=1", FakeAnswer::watch());
  nodes.start();
  pass(5s);
  EXPECT_FALSE(rewind.lasts());
  http.on(Method::Get, path, list_at("400"));
  http.on(Method::Get, maps, status(500, "InternalError"));
  nodes.list_anew();
  pass(1s);
  EXPECT_TRUE(rewind.lasts());
  EXPECT_EQ(done, (std::vector<std::string>{"drop"})) << "that list was begun before";
  pass(10s);
  EXPECT_EQ(done, (std::vector<std::string>{"drop", "take up"}));
  EXPECT_NE(rewind.problem().find("the records of incidents"), std::string::npos);
  pass(1min);
  EXPECT_TRUE(rewind.lasts()) << "they cannot be read";
  http.on(Method::Get, maps, list_at("401"));
  pass(2min);
  EXPECT_FALSE(rewind.lasts());
  EXPECT_EQ(rewind.problem(), "");
  EXPECT_EQ(done.size(), 2U);
}

// It is not ours to write again, and was waited for: nothing was deleted any more.
TEST_F(RewindTest, a_record_that_somebody_wrote_over_is_not_waited_for) {
  http.on(Method::Get, path, list_at("500"));
  http.on(Method::Get, path + "?watch=1", FakeAnswer::watch());
  nodes.start();
  pass(5s);
  http.on(Method::Get, path, list_at("400"));
  http.on(Method::Get, maps, status(500, "InternalError"));
  nodes.list_anew();
  pass(11s);
  ASSERT_EQ(done, (std::vector<std::string>{"drop", "take up"}));
  const auto page = journal.begin({.id = IncidentId("i1")});
  http.on(Method::Post, maps, status(409, "AlreadyExists"));
  http.on(Method::Get, maps + "/moonfence-incident-i1",
          FakeAnswer{.body = R"({"kind":"ConfigMap","metadata":{"name":"moonfence-incident-i1",)"
                             R"("namespace":"fence","uid":"m1","resourceVersion":"450"},)"
                             R"("data":{"record.json":"[]"}})"});
  std::optional<bool> saved;
  page->plan({.pod_uid = Uid("a")});
  journal.save(page, [&saved](bool stands) { saved = stands; });
  pass(1s);
  EXPECT_EQ(saved, false);
  EXPECT_NE(journal.problem(), "");
  EXPECT_TRUE(rewind.lasts()) << "the other records were not read";
  http.on(Method::Get, maps, list_at("401"));
  pass(2min);
  EXPECT_FALSE(rewind.lasts()) << rewind.problem();
}

TEST_F(RewindTest, a_list_that_fails_keeps_it_up) {
  http.on(Method::Get, path, status(500, "InternalError"));
  nodes.start();
  rewind.heard();
  EXPECT_TRUE(rewind.lasts());
  pass(5min);
  EXPECT_TRUE(rewind.is_listing());
  EXPECT_NE(rewind.problem().find("a list of the nodes"), std::string::npos);
  EXPECT_EQ(done, (std::vector<std::string>{"drop"}));
}

}  // namespace
}  // namespace moonfence::app
