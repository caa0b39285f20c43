#include "kube/calls/config_map_keeper.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "unit/kube/wire_fixture.h"

namespace moonfence::kube {
namespace {

using namespace std::chrono_literals;
using port::Method;
using test::FakeAnswer;
using test::FakeRequest;

constexpr const char* kMaps = "/prefix/api/v1/namespaces/fence/configmaps";
constexpr const char* kPath = "/prefix/api/v1/namespaces/fence/configmaps/status";

struct ConfigMapKeeperTest : WireTest {
  test::FakeRandom random;
  ConfigMapKeeper keeper{loop,
                         caller,
                         random,
                         log,
                         {Namespace("fence"), "status"},
                         {},
                         ConfigMapKeeper::Writers::OnlyWe};

  static FakeAnswer stands() {
    return {.body = R"({"metadata":{"name":"status","namespace":"fence","uid":"u"}})"};
  }
  // The answer to a list of that name.
  static FakeAnswer listed(const std::string& items) {
    return {.body = R"({"kind":"ConfigMapList","metadata":{"resourceVersion":"9"},"items":[)" +
                    items + "]}"};
  }
  static std::string holding(const std::string& data) {
    return R"({"metadata":{"name":"status","namespace":"fence","uid":"u"},"data":)" + data + "}";
  }
  [[nodiscard]] std::size_t writes() const {
    return static_cast<std::size_t>(
        std::count_if(http.requests.begin(), http.requests.end(),
                      [](const FakeRequest& sent) { return sent.method == Method::Patch; }));
  }
  [[nodiscard]] nlohmann::json data_of(std::size_t request) const {
    return nlohmann::json::parse(http.requests.at(request).body).at("data");
  }
};

TEST_F(ConfigMapKeeperTest, the_newest_text_of_a_burst_is_what_is_written) {
  http.on(Method::Patch, kPath, stands());
  keeper.keep({{"a", "1"}});
  for (int i = 2; i < 50; ++i) {
    keeper.keep({{"a", std::to_string(i)}});
  }
  EXPECT_FALSE(keeper.settled());
  test::run_for(loop, 1s);
  EXPECT_TRUE(keeper.settled());
  ASSERT_EQ(http.requests.size(), 2U) << "the first, and the newest after it";
  EXPECT_EQ(data_of(0), (nlohmann::json{{"a", "1"}}));
  EXPECT_EQ(data_of(1), (nlohmann::json{{"a", "49"}}));
}

TEST_F(ConfigMapKeeperTest, what_stands_there_is_not_written_again) {
  http.on(Method::Patch, kPath, stands());
  keeper.keep({{"a", "1"}, {"b", "2"}});
  test::run_for(loop, 1s);
  keeper.keep({{"a", "1"}});
  test::run_for(loop, 1s);
  EXPECT_EQ(http.requests.size(), 1U);
  keeper.keep({{"b", std::nullopt}});
  test::run_for(loop, 1s);
  ASSERT_EQ(http.requests.size(), 2U);
  EXPECT_EQ(data_of(1), (nlohmann::json{{"a", "1"}, {"b", nullptr}}));
  keeper.keep({{"a", "2"}});
  test::run_for(loop, 1s);
  EXPECT_EQ(data_of(2), (nlohmann::json{{"a", "2"}})) << "b is gone for good";
}

// An object that somebody deleted came back with the last change alone, and what the other keys
// said was lost.
TEST_F(ConfigMapKeeperTest, an_object_that_is_made_again_is_whole) {
  http.on(Method::Patch, kPath, stands());
  keeper.keep({{"a", "1"}, {"b", "2"}});
  test::run_for(loop, 1s);
  http.on(Method::Patch, kPath, status(404, "NotFound", R"({"name":"x"})"));
  http.on(Method::Post, "/prefix/api/v1/namespaces/fence/configmaps", stands());
  keeper.keep({{"b", "3"}});
  test::run_for(loop, 1s);
  EXPECT_TRUE(keeper.settled());
  EXPECT_EQ(data_of(http.requests.size() - 1), (nlohmann::json{{"a", "1"}, {"b", "3"}}));
}

TEST_F(ConfigMapKeeperTest, it_goes_on_until_it_is_written_without_haste) {
  http.on(Method::Patch, kPath, status(500, "InternalError"));
  keeper.keep({{"a", "1"}});
  test::run_for(loop, 60s);
  const std::size_t tries = http.requests.size();
  EXPECT_GE(tries, 4U);
  EXPECT_LE(tries, 9U);
  EXPECT_EQ(keeper.failures(), tries);
  keeper.keep({{"a", "2"}});
  EXPECT_EQ(http.requests.size(), tries) << "the pause holds for new texts too";
  http.on(Method::Patch, kPath, stands());
  test::run_for(loop, 60s);
  EXPECT_TRUE(keeper.settled());
  EXPECT_EQ(data_of(writes() - 1), (nlohmann::json{{"a", "2"}}));
}

TEST_F(ConfigMapKeeperTest, a_text_whose_fate_is_unknown_is_sent_again) {
  http.sequence(Method::Patch, kPath, {FakeAnswer::lost(), stands()});
  keeper.keep({{"a", "1"}});
  test::run_for(loop, 60s);
  EXPECT_TRUE(keeper.settled());
  EXPECT_EQ(http.requests.size(), 2U);
}

// A store that was restored from a backup had lost the report and the last good policies, and
// nobody wrote them again before they changed.
TEST_F(ConfigMapKeeperTest, what_is_missing_a_minute_later_is_written_again) {
  http.on(Method::Patch, kPath, stands());
  http.on(Method::Get, kMaps, listed(holding(R"({"a":"1","of another":"2"})")));
  keeper.keep({{"a", "1"}});
  test::run_for(loop, 150s);
  EXPECT_EQ(writes(), 1U) << "it stands there";
  http.on(Method::Get, kMaps, status(500, "InternalError"));
  test::run_for(loop, 120s);
  EXPECT_EQ(writes(), 1U) << "nobody said that it is missing";

  for (const std::string& there :
       {std::string(), holding(R"({"of another":"2"})"), holding(R"({"a":"of yesterday"})")}) {
    SCOPED_TRACE(there);
    const std::size_t before = writes();
    http.on(Method::Get, kMaps, listed(there));
    test::run_for(loop, 60s);
    EXPECT_EQ(writes(), before + 1);
    EXPECT_TRUE(keeper.settled());
  }
}

TEST_F(ConfigMapKeeperTest, what_is_doubted_is_looked_at_now_and_until_somebody_answers) {
  ConfigMapKeeper shared(loop, caller, random, log, {Namespace("fence"), "status"}, {},
                         ConfigMapKeeper::Writers::Several);
  shared.doubt();
  EXPECT_TRUE(shared.settled()) << "nothing was ever kept";
  http.on(Method::Patch, kPath, stands());
  http.on(Method::Get, kMaps, status(500, "InternalError"));
  shared.keep({{"a", "1"}});
  test::run_for(loop, 1s);
  shared.doubt();
  test::run_for(loop, 20s);
  EXPECT_FALSE(shared.settled());
  http.on(Method::Get, kMaps, listed(holding(R"({"a":"of long ago"})")));
  test::run_for(loop, 60s);
  EXPECT_TRUE(shared.settled());
  EXPECT_EQ(writes(), 2U) << "whoever wrote it, it is of another time";
  shared.doubt();
  EXPECT_FALSE(shared.settled());
  http.on(Method::Get, kMaps, listed(holding(R"({"a":"1"})")));
  test::run_for(loop, 1s);
  EXPECT_TRUE(shared.settled());
  EXPECT_EQ(writes(), 2U);
}

TEST_F(ConfigMapKeeperTest, another_text_is_left_alone_where_several_write) {
  ConfigMapKeeper shared(loop, caller, random, log, {Namespace("fence"), "status"}, {},
                         ConfigMapKeeper::Writers::Several);
  http.on(Method::Patch, kPath, stands());
  http.on(Method::Get, kMaps, listed(holding(R"({"a":"of another replica"})")));
  shared.keep({{"a", "1"}});
  test::run_for(loop, 150s);
  EXPECT_EQ(writes(), 1U);
  http.on(Method::Get, kMaps, listed(holding(R"({})")));
  test::run_for(loop, 60s);
  EXPECT_EQ(writes(), 2U);
}

}  // namespace
}  // namespace moonfence::kube
