#include "kube/leases/revisions.h"

#include "unit/kube/wire_fixture.h"

namespace moonfence::kube {
namespace {

using namespace std::chrono_literals;

constexpr Moment kStart{100s};

ResourceVersion version(int number) {
  return ResourceVersion(std::to_string(number));
}

TEST(RevisionsTest, what_was_reached_by_a_moment_was_written_before_it) {
  Revisions revisions;
  EXPECT_FALSE(revisions.since(version(1)).has_value());
  (void)revisions.note(version(10), kStart, kStart);
  (void)revisions.note(version(10), kStart + 2s, kStart + 2s);
  (void)revisions.note(version(25), kStart + 4s, kStart + 4s);
  EXPECT_EQ(revisions.since(version(9)), kStart);
  EXPECT_EQ(revisions.since(version(10)), kStart);
  EXPECT_EQ(revisions.since(version(11)), kStart + 4s);
  EXPECT_FALSE(revisions.since(version(26)).has_value());
}

TEST(RevisionsTest, versions_order_as_numbers) {
  Revisions revisions;
  (void)revisions.note(version(99), kStart, kStart);
  EXPECT_FALSE(revisions.since(version(100)).has_value());
}

// A backup was put back: what it holds was not written when the same numbers were reached before.
TEST(RevisionsTest, a_store_that_went_back_makes_what_was_known_worthless) {
  Revisions revisions;
  EXPECT_TRUE(revisions.note(version(50), kStart, kStart));
  EXPECT_TRUE(revisions.note(version(50), kStart + 5s, kStart + 5s));
  EXPECT_FALSE(revisions.note(version(40), kStart + 10s, kStart + 10s));
  EXPECT_EQ(revisions.since(version(35)), kStart + 10s);
  (void)revisions.note(ResourceVersion("odd"), kStart + 12s, kStart + 12s);
  EXPECT_FALSE(revisions.since(version(35)).has_value());
}

TEST(RevisionsTest, old_ones_are_forgotten_but_for_the_newest_of_them) {
  Revisions revisions;
  for (int second = 0; second <= 600; second += 2) {
    (void)revisions.note(version(1000 + second), kStart + second * 1s, kStart + second * 1s);
  }
  EXPECT_EQ(revisions.since(version(1)), kStart + 478s);
  EXPECT_EQ(revisions.since(version(1600)), kStart + 600s);
}

TEST(RevisionsTest, what_the_store_had_not_reached_was_written_later) {
  Revisions revisions;
  EXPECT_FALSE(revisions.written(version(10)).after.has_value());
  (void)revisions.note(version(10), kStart, kStart + 1s);
  (void)revisions.note(version(10), kStart + 2s, kStart + 3s);
  (void)revisions.note(version(25), kStart + 4s, kStart + 5s);
  EXPECT_FALSE(revisions.written(version(10)).after.has_value()) << "it may be as old as the store";
  EXPECT_EQ(revisions.written(version(11)).after, kStart + 2s);
  EXPECT_EQ(revisions.written(version(11)).by, kStart + 5s);
  EXPECT_EQ(revisions.written(version(25)).after, kStart + 2s);
  EXPECT_EQ(revisions.written(version(26)).after, kStart + 4s);
  EXPECT_FALSE(revisions.written(version(26)).by.has_value());
  EXPECT_FALSE(revisions.written(ResourceVersion("odd")).after.has_value());
}

TEST(RevisionsTest, what_a_version_shows_is_no_older_than_when_the_store_was_not_beyond_it) {
  Revisions revisions;
  EXPECT_FALSE(revisions.not_beyond(version(10)).has_value());
  (void)revisions.note(version(10), kStart, kStart);
  (void)revisions.note(version(10), kStart + 2s, kStart + 2s);
  (void)revisions.note(version(25), kStart + 4s, kStart + 4s);
  EXPECT_FALSE(revisions.not_beyond(version(9)).has_value());
  EXPECT_EQ(revisions.not_beyond(version(10)), kStart + 2s);
  EXPECT_EQ(revisions.not_beyond(version(24)), kStart + 2s);
  EXPECT_EQ(revisions.not_beyond(version(26)), kStart + 4s);
}

struct LeaseRevisionsTest : WireTest {};

TEST_F(LeaseRevisionsTest, that_it_may_not_be_asked_is_told_until_it_may) {
  bool may = false;
  http.on(port::Method::Get,
          "/prefix/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
          [&may](const test::FakeRequest&) {
            return may ? test::FakeAnswer{.body = R"({"metadata":{"resourceVersion":"5"}})"}
                       : test::FakeAnswer{.status = 403, .body = "{}"};
          });
  LeaseRevisions leases(loop, caller, log);
  leases.start();
  test::run_for(loop, 1s);
  EXPECT_NE(leases.problem(), "");
  may = true;
  test::run_for(loop, 15s);
  EXPECT_EQ(leases.problem(), "");
}

TEST_F(LeaseRevisionsTest, the_store_is_asked_every_two_seconds_by_a_consistent_list_of_nothing) {
  int asked = 0;
  http.on(port::Method::Get,
          "/prefix/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
          [&asked](const test::FakeRequest& request) {
            EXPECT_EQ(request.query.find("resourceVersion"), std::string::npos);
            return test::FakeAnswer{
                .body = R"({"kind":"LeaseList","items":[],"metadata":{"resourceVersion":")" +
                        std::to_string(100 + ++asked) + R"("}})"};
          });
  LeaseRevisions leases(loop, caller, log);
  leases.start();
  test::run_for(loop, 9s);
  EXPECT_EQ(asked, 5);
  const auto first = leases.revisions().since(version(101));
  const auto last = leases.revisions().since(version(105));
  ASSERT_TRUE(first && last);
  EXPECT_EQ(*last - *first, 8s);
}

// The leader's own renewals say it every second, and nobody asks beside them.
TEST_F(LeaseRevisionsTest, nobody_asks_for_what_is_heard_anyway_unless_it_is_odd) {
  int asked = 0;
  http.on(port::Method::Get,
          "/prefix/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
          [&asked](const test::FakeRequest&) {
            ++asked;
            return test::FakeAnswer{.body = R"({"items":[],"metadata":{"resourceVersion":"500"}})"};
          });
  LeaseRevisions leases(loop, caller, log);
  leases.start();
  test::run_for(loop, 1s);
  ASSERT_EQ(asked, 1);
  for (int i = 1; i <= 20; ++i) {
    test::run_for(loop, i == 1 ? 500ms : 1s);
    leases.heard(version(500 + i), loop.now());
  }
  EXPECT_EQ(asked, 1);
  const auto written = leases.revisions().written(version(510));
  ASSERT_TRUE(written.after && written.by);
  EXPECT_EQ(*written.by - *written.after, 1s);
  leases.heard(version(400), loop.now());  // older than what was heard: the store is asked
  test::run_for(loop, 10ms);
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace moonfence::kube
