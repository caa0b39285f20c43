#include "cluster/witness/testimony.h"

#include <string>

#include <gtest/gtest.h>

#include "kube/text/json.h"

namespace moonfence::cluster {
namespace {

using namespace std::chrono_literals;

constexpr const char* kNonce = "0123456789abcdef0123456789abcdef";

struct TestimonyTest : testing::Test {
  const SigningKey key{{7}};
  Testimony told{
      .nonce = kNonce,
      .is_well = true,
      .machines = {{NodeName("n1"), {.kernel = Kernel::Silent, .quiet = 3500ms, .unanswered = 21}},
                   {NodeName("n2"), {.kernel = Kernel::NotObservable, .quiet = {}}}}};

  // That states this, signed as it should be.
  [[nodiscard]] Result<Testimony> read(const std::string& statement) const {
    return testimony_of(
        kube::to_text({{"statement", statement}, {"signature", key.sign(statement)}}),
        key.public_key());
  }
};

TEST_F(TestimonyTest, what_was_told_is_read) {
  const auto read = testimony_of(to_answer(told, key), key.public_key());
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->nonce, kNonce);
  EXPECT_TRUE(read->is_well);
  ASSERT_EQ(read->machines.size(), 2U);
  EXPECT_EQ(read->machines.at(NodeName("n1")).kernel, Kernel::Silent);
  EXPECT_EQ(read->machines.at(NodeName("n1")).quiet, 3500ms);
  EXPECT_EQ(read->machines.at(NodeName("n1")).unanswered, 21U);
  EXPECT_EQ(read->machines.at(NodeName("n2")).quiet, std::nullopt);
}

TEST_F(TestimonyTest, what_another_key_has_signed_is_refused) {
  const auto read = testimony_of(to_answer(told, SigningKey({8})), key.public_key());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, Error::Kind::Unauthorized);
}

TEST_F(TestimonyTest, what_was_changed_on_the_way_is_refused) {
  std::string answer = to_answer(told, key);
  answer.replace(answer.find("silent"), 6, "unsure");
  const auto read = testimony_of(answer, key.public_key());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, Error::Kind::Unauthorized);
}

TEST_F(TestimonyTest, another_version_is_not_guessed_at) {
  const auto other =
      read(R"({"version":2,"nonce":"0123456789abcdef0123456789abcdef","well":true,"machines":{}})");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, Error::Kind::Invalid);
}

TEST_F(TestimonyTest, what_makes_no_sense_is_refused_whoever_signed_it) {
  const std::string head =
      R"({"version":1,"nonce":"0123456789abcdef0123456789abcdef","well":true,)";
  EXPECT_TRUE(read(head + R"("machines":{"n1":{"kernel":"answers","unanswered":0,"quietMs":5}}})"));
  for (const std::string& machine :
       {R"("answers")", R"({})", R"({"kernel":"dead","unanswered":0})",
        R"({"kernel":"answers","unanswered":-1})", R"({"kernel":"answers","unanswered":"many"})",
        R"({"kernel":"answers","unanswered":0,"quietMs":-5})",
        R"({"kernel":"answers","unanswered":0,"quietMs":1e30})",
        R"({"kernel":"answers","unanswered":0,"quietMs":null})"}) {
    EXPECT_FALSE(read(head + R"("machines":{"n1":)" + machine + "}}")) << machine;
  }
  EXPECT_FALSE(read(head + R"("machines":[]})"));
  EXPECT_FALSE(read(R"({"version":1,"nonce":"short","well":true,"machines":{}})"));
  EXPECT_FALSE(read(R"({"version":1,"nonce":"0123456789abcdef0123456789abcdef","machines":{}})"));
  EXPECT_FALSE(read("[1]"));
  EXPECT_FALSE(read("{"));
  EXPECT_FALSE(testimony_of("<html>", key.public_key()));
  EXPECT_FALSE(testimony_of("[]", key.public_key()));
  EXPECT_FALSE(testimony_of("", key.public_key()));
}

TEST_F(TestimonyTest, the_question_names_nonce_and_nodes) {
  EXPECT_EQ(question_path(kNonce, {NodeName("n1"), NodeName("n2")}),
            "/witness?nonce=0123456789abcdef0123456789abcdef&nodes=n1,n2");
}

}  // namespace
}  // namespace moonfence::cluster
