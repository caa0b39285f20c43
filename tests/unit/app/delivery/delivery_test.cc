#include "app/delivery/delivery.h"

#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_files.h"
#include "support/fake_http.h"
#include "support/fake_log.h"
#include "support/fake_poller.h"
#include "support/fake_random.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using test::FakeAnswer;
using test::FakeRequest;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Loss = Delivery::Loss;
using Refusal = Delivery::Refusal;

constexpr const char* kHook = "/services/s3cret-path";

Refusal refusal_of(int http_status) {
  return http_status == 410   ? Refusal::ForEver
         : http_status == 413 ? Refusal::OfMessage
         : http_status == 400 ? Refusal::StepOver
                              : Refusal::ForNow;
}

struct DeliveryTest : testing::Test {
  DeliveryTest() {
    random.fix(0);
    http.on(port::Method::Post, kHook, [this](const FakeRequest&) { return answer; });
    rules.url = std::string("https://hooks.example.com") + kHook;
  }

  void use(Delivery::Limits limits = {}) {
    sender.emplace(cluster::Endpoints::Surroundings{loop, http, files, log, "moonfence/1"},
                   "webhook", rules);
    delivery.emplace(
        Delivery::Surroundings{.loop = loop,
                               .random = random,
                               .log = log,
                               .sender = *sender,
                               .may_send = [this] { return leads; },
                               .is_acting = [this] { return acts; }},
        Delivery::Manner{.name = "webhook",
                         .limits = limits,
                         .refusal_of = refusal_of,
                         .stamp = [this](const auto& message) { return stamp(message); }});
    delivery->lead();
  }
  Result<std::vector<port::Header>> stamp(const Delivery::Message& message) {
    if (!stampable) {
      return failure(Error::Kind::NotFound, "no stamp");
    }
    return std::vector<port::Header>{{"webhook-id", message.id}};
  }
  void add(const std::string& id, const std::string& body = "{}") {
    delivery->add({.id = id, .body = body, .content_type = "application/cloudevents+json"});
  }
  void pass(Duration time) { test::run_for(loop, time); }
  [[nodiscard]] std::vector<std::string> ids() const {
    std::vector<std::string> all;
    for (const FakeRequest& request : http.requests) {
      all.push_back(request.header("webhook-id"));
    }
    return all;
  }
  [[nodiscard]] std::vector<std::int64_t> seconds() const {
    std::vector<std::int64_t> all;
    for (const FakeRequest& request : http.requests) {
      all.push_back(
          std::chrono::duration_cast<std::chrono::seconds>(request.at.time_since_epoch()).count());
    }
    return all;
  }
  [[nodiscard]] std::uint64_t lost(Loss why) const { return delivery->counts().lost.at(why); }

  test::FakePoller poller;
  loop::Loop loop{poller};
  test::FakeHttp http{loop};
  test::FakeFiles files;
  test::FakeLog log;
  test::FakeRandom random;
  cluster::EndpointRules rules;
  FakeAnswer answer{.status = 204};
  bool leads = true;
  bool acts = false;
  bool stampable = true;
  std::optional<cluster::EndpointSender> sender;
  std::optional<Delivery> delivery;
};

TEST_F(DeliveryTest, messages_arrive_once_each_in_their_order) {
  use();
  add("1", "one");
  add("2", "two");
  add("3", "three");
  pass(1min);
  EXPECT_THAT(ids(), ElementsAre("1", "2", "3"));
  EXPECT_EQ(http.requests[0].line(), std::string("POST ") + kHook);
  EXPECT_EQ(http.requests[1].body, "two");
  EXPECT_EQ(http.requests[1].header("Content-Type"), "application/cloudevents+json");
  EXPECT_EQ(http.requests[0].lane, port::Lane::Endpoints);
  EXPECT_EQ(delivery->counts().delivered, 3U);
  EXPECT_EQ(delivery->counts().waiting, 0U);
  EXPECT_EQ(delivery->problem(), "");
}

TEST_F(DeliveryTest, an_answer_of_html_is_as_good_as_any) {
  answer = {
      .status = 200, .body = "<html>thanks</html>", .headers = {{"content-type", "text/html"}}};
  use();
  add("1");
  pass(1min);
  EXPECT_EQ(delivery->counts().delivered, 1U);
}

TEST_F(DeliveryTest, a_receiver_that_is_down_is_tried_again_with_growing_pauses) {
  // row WH-02
  answer = FakeAnswer::refused();
  use();
  add("1");
  add("2");
  pass(21min);
  EXPECT_THAT(seconds(), ElementsAre(0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111));
  EXPECT_EQ(delivery->counts().waiting, 2U);
  EXPECT_EQ(delivery->counts().failed_attempts, 12U);
  http.requests.clear();
  answer = {.status = 200};
  pass(5min);
  EXPECT_THAT(ids(), ElementsAre("1", "2")) << "later, in order, and once each";
}

TEST_F(DeliveryTest, chance_adds_up_to_half_of_each_pause) {
  answer = {.status = 500};
  random.fix(0.999999);
  use();
  add("1");
  pass(11s);
  EXPECT_THAT(seconds(), ElementsAre(0, 1, 4, 10)) << "1.5, 3 and 6 s instead of 1, 2 and 4";
}

TEST_F(DeliveryTest, what_the_receiver_asks_for_is_waited_for_and_not_longer_than_five_minutes) {
  answer = {.status = 429, .headers = {{"retry-after", "40"}}};
  use();
  add("1");
  pass(39s);
  EXPECT_EQ(http.requests.size(), 1U);
  answer = {.status = 503, .headers = {{"retry-after", "999999"}}};
  pass(2s);
  EXPECT_EQ(http.requests.size(), 2U);
  pass(5min);
  EXPECT_EQ(http.requests.size(), 3U);
}

TEST_F(DeliveryTest, the_log_is_told_when_it_begins_to_fail_and_when_it_works_again) {
  answer = {.status = 500, .body = "<html>the receiver's own words</html>"};
  use();
  add("1");
  pass(1h);
  EXPECT_GT(delivery->counts().failed_attempts, 10U);
  EXPECT_EQ(log.count("delivery_"), 1U);
  EXPECT_EQ(delivery->problem(), "webhook: HTTP 500");
  answer = {.status = 200};
  pass(10min);
  EXPECT_EQ(log.count("delivery_"), 2U);
  EXPECT_EQ(delivery->problem(), "");
  EXPECT_EQ(log.count("own words"), 0U) << "nothing that the receiver says is quoted";
}

TEST_F(DeliveryTest, the_path_of_its_url_is_told_nobody) {
  use();
  for (const FakeAnswer& fault :
       {FakeAnswer{.status = 500}, FakeAnswer::refused(), FakeAnswer::lost()}) {
    answer = fault;
    add("1");
    pass(1s);
    EXPECT_FALSE(delivery->problem().empty());
    EXPECT_THAT(delivery->problem(), Not(HasSubstr("s3cret")));
  }
  EXPECT_EQ(log.count("s3cret"), 0U);
}

TEST_F(DeliveryTest, redirects_are_not_followed) {
  answer = {.status = 302, .headers = {{"location", "https://elsewhere.example.com/x"}}};
  use();
  add("1");
  pass(3s);
  EXPECT_EQ(http.count(kHook), http.requests.size());
  EXPECT_EQ(delivery->problem(), "webhook: HTTP 302");
}

TEST_F(DeliveryTest, a_receiver_that_is_gone_gets_nothing_more) {
  answer = {.status = 410};
  use();
  add("1");
  add("2");
  pass(1min);
  add("3");
  answer = {.status = 200};
  pass(1h);
  EXPECT_THAT(ids(), ElementsAre("1"));
  EXPECT_EQ(lost(Loss::Unwanted), 3U);
  EXPECT_THAT(delivery->problem(), HasSubstr("wants no more"));
}

TEST_F(DeliveryTest, a_receiver_that_was_gone_is_asked_again_after_a_day_and_by_the_next_term) {
  answer = {.status = 410};
  use();
  add("1");
  pass(1min);
  delivery->step_down();
  EXPECT_THAT(delivery->problem(), HasSubstr("wants no more"));
  delivery->lead();
  EXPECT_EQ(delivery->problem(), "");
  add("2");
  pass(23h);
  add("3");
  pass(2h);
  EXPECT_THAT(ids(), ElementsAre("1", "2"));
  answer = {.status = 200};
  add("4");
  pass(1min);
  EXPECT_THAT(ids(), ElementsAre("1", "2", "4"));
  EXPECT_EQ(delivery->problem(), "");
}

TEST_F(DeliveryTest, what_may_be_the_fault_of_a_message_goes_behind_the_others) {
  bool refuses = true;
  http.on(port::Method::Post, kHook, [&refuses](const FakeRequest& request) {
    return FakeAnswer{.status = refuses && request.header("webhook-id") == "1" ? 400 : 200};
  });
  use();
  add("1");
  add("2");
  add("3");
  pass(2min);
  ASSERT_GT(http.requests.size(), 7U);
  const auto all = ids();
  EXPECT_THAT(std::vector<std::string>(all.begin(), all.begin() + 7),
              ElementsAre("1", "1", "1", "1", "1", "2", "3"));
  EXPECT_EQ(delivery->counts().waiting, 1U) << "it is not lost";
  refuses = false;
  pass(10min);
  EXPECT_EQ(delivery->counts().delivered, 3U);
  EXPECT_EQ(lost(Loss::Refused), 0U);
}

TEST_F(DeliveryTest, only_answers_that_mean_the_message_count_against_it) {
  stampable = false;
  answer = {.status = 413};
  use();
  add("1");
  pass(10min);
  stampable = true;
  leads = false;
  pass(10min);
  leads = true;
  http.sequence(port::Method::Post, kHook,
                {{.status = 500},
                 {.status = 413},
                 {.status = 413},
                 {.status = 413},
                 {.status = 413},
                 {.status = 200}});
  pass(1h);
  EXPECT_EQ(http.requests.size(), 6U);
  EXPECT_EQ(delivery->counts().delivered, 1U);
  EXPECT_EQ(lost(Loss::Refused), 0U);
}

TEST_F(DeliveryTest, a_2xx_is_a_success_whatever_becomes_of_its_body) {
  use();
  answer = {.status = 200,
            .body = "thank",
            .error = Error{.kind = Error::Kind::Retryable, .text = "connection reset"}};
  add("1");
  pass(10s);
  EXPECT_EQ(delivery->counts().delivered, 1U) << "cut";
  answer = {.status = 200, .body = "thank", .hold = true};
  add("2");
  add("3");
  pass(10s);
  EXPECT_EQ(delivery->counts().delivered, 3U) << "never ends";
  answer = {.status = 200, .body = std::string(1 << 20, 'a'), .hold = true};
  add("4");
  pass(10ms);
  EXPECT_EQ(delivery->counts().delivered, 4U) << "is long";
  pass(1h);
  EXPECT_THAT(ids(), ElementsAre("1", "2", "3", "4"));
  EXPECT_EQ(delivery->problem(), "");
  EXPECT_EQ(http.open_exchanges(), 0U);
}

TEST_F(DeliveryTest, a_message_that_is_refused_itself_holds_up_the_next_for_five_tries) {
  http.on(port::Method::Post, kHook, [](const FakeRequest& request) {
    return FakeAnswer{.status = request.header("webhook-id") == "1" ? 413 : 200};
  });
  use();
  add("1");
  add("2");
  pass(5min);
  EXPECT_THAT(ids(), ElementsAre("1", "1", "1", "1", "1", "2"));
  EXPECT_EQ(lost(Loss::Refused), 1U);
  EXPECT_EQ(delivery->counts().delivered, 1U);
}

TEST_F(DeliveryTest, what_has_no_room_pushes_the_oldest_out) {
  answer = FakeAnswer::refused();
  use({.messages = 3});
  for (const char* id : {"1", "2", "3", "4", "5"}) {
    add(id);
    pass(100ms);
  }
  EXPECT_EQ(lost(Loss::Full), 2U);
  http.requests.clear();
  answer = {.status = 200};
  pass(1min);
  EXPECT_THAT(ids(), ElementsAre("3", "4", "5"));
}

TEST_F(DeliveryTest, what_matters_is_pushed_out_last) {
  answer = FakeAnswer::refused();
  use({.messages = 3});
  for (const char* id : {"1", "2!", "3!", "4", "5!", "6!"}) {
    delivery->add({.id = id,
                   .body = "{}",
                   .content_type = "application/cloudevents+json",
                   .matters = std::string(id).ends_with('!')});
    pass(100ms);
  }
  http.requests.clear();
  answer = {.status = 200};
  pass(1min);
  EXPECT_THAT(ids(), ElementsAre("3!", "5!", "6!"));
}

TEST_F(DeliveryTest, a_burst_of_hundreds_loses_nothing_while_the_receiver_is_well) {
  acts = true;
  use();
  for (int i = 0; i < 900; ++i) {
    add(std::to_string(i), std::string(1200, 'a'));
  }
  pass(10min);
  acts = false;
  pass(1h);
  EXPECT_EQ(delivery->counts().delivered, 900U);
  EXPECT_EQ(lost(Loss::Full), 0U);
}

TEST_F(DeliveryTest, that_messages_are_lost_is_told_once_until_all_is_well) {
  answer = FakeAnswer::refused();
  use({.messages = 2});
  for (const char* id : {"1", "2", "3", "4", "5"}) {
    add(id);
    pass(100ms);
  }
  EXPECT_EQ(log.count("delivery_loses"), 1U);
  EXPECT_THAT(delivery->problem(), HasSubstr("; messages were lost (full)"));
  answer = {.status = 200};
  pass(1min);
  EXPECT_EQ(delivery->problem(), "");
  answer = {.status = 413};
  add("6");
  pass(10min);
  EXPECT_EQ(log.count("delivery_loses"), 2U);
  EXPECT_THAT(delivery->problem(), HasSubstr("messages were lost (refused)"));
  delivery->step_down();
  EXPECT_EQ(delivery->problem(), "");
}

TEST_F(DeliveryTest, the_bytes_that_wait_are_bounded) {
  answer = FakeAnswer::refused();
  use({.messages = 100, .bytes = 1000});
  add("1", std::string(600, 'a'));
  add("2", std::string(600, 'a'));
  EXPECT_EQ(delivery->counts().waiting, 1U);
  add("3", std::string(1001, 'a'));
  EXPECT_EQ(delivery->counts().waiting, 1U) << "what never fits pushes nothing out";
  EXPECT_EQ(lost(Loss::Full), 2U);
}

TEST_F(DeliveryTest, the_message_under_way_is_not_pushed_out) {
  answer = FakeAnswer::silent();
  use({.messages = 2});
  add("1");
  pass(100ms);
  add("2");
  add("3");
  EXPECT_EQ(http.close(kHook), 1U) << "it is still being sent";
  answer = {.status = 200};
  pass(1min);
  EXPECT_THAT(ids(), ElementsAre("1", "1", "3"));
}

TEST_F(DeliveryTest, what_is_too_old_is_given_up) {
  answer = {.status = 500};
  use();
  add("1");
  pass(23h);
  add("2");
  pass(2h);
  EXPECT_EQ(lost(Loss::TooOld), 1U);
  answer = {.status = 200};
  pass(10min);
  EXPECT_EQ(ids().back(), "2");
  EXPECT_EQ(delivery->counts().delivered, 1U);
}

TEST_F(DeliveryTest, it_gives_way_while_calls_act_but_not_for_ever) {
  acts = true;
  use();
  add("1");
  pass(4s);
  EXPECT_EQ(http.requests.size(), 0U);
  pass(2s);
  EXPECT_EQ(http.requests.size(), 1U);
}

TEST_F(DeliveryTest, it_gives_way_anew_for_what_comes_after_a_queue_that_became_empty) {
  acts = true;
  use({.age = 3s});
  add("1");
  pass(4s);  // too old before it was tried
  EXPECT_EQ(lost(Loss::TooOld), 1U);
  pass(10s);
  add("2");
  pass(1s);
  EXPECT_EQ(http.requests.size(), 0U);
}

TEST_F(DeliveryTest, only_who_leads_sends) {
  use();
  delivery->step_down();
  add("0");
  pass(1min);
  EXPECT_EQ(http.requests.size(), 0U);
  delivery->lead();
  leads = false;  // the Lease has run out, and nobody has said so yet
  add("1");
  pass(1min);
  EXPECT_EQ(http.requests.size(), 0U);
  leads = true;
  pass(2s);
  EXPECT_THAT(ids(), ElementsAre("1"));
  answer = FakeAnswer::refused();
  add("2");
  pass(1s);
  delivery->step_down();
  answer = {.status = 200};
  http.requests.clear();
  pass(1h);
  EXPECT_EQ(http.requests.size(), 0U);
  EXPECT_EQ(lost(Loss::SteppedDown), 1U);
}

TEST_F(DeliveryTest, what_cannot_be_stamped_is_tried_again) {
  stampable = false;
  use();
  add("1");
  pass(10s);
  EXPECT_EQ(http.requests.size(), 0U);
  EXPECT_EQ(delivery->problem(), "webhook: no stamp");
  stampable = true;
  pass(10s);
  EXPECT_THAT(ids(), ElementsAre("1"));
}

TEST_F(DeliveryTest, it_shows_who_it_is_as_the_endpoints_of_policies_do) {
  rules.auth = cluster::EndpointRules::Auth::Bearer;
  rules.token_file = "/token";
  rules.headers = {{"X-Team", "storage"}};
  files.write("/token", "t0ken\n");
  use();
  add("1");
  pass(1s);
  ASSERT_EQ(http.requests.size(), 1U);
  EXPECT_EQ(http.requests[0].header("Authorization"), "Bearer t0ken");
  EXPECT_EQ(http.requests[0].header("X-Team"), "storage");
}

TEST_F(DeliveryTest, it_is_not_sent_to_a_receiver_that_cannot_be_recognised) {
  rules.ca_file = "/absent.crt";
  use();
  add("1");
  pass(1min);
  EXPECT_EQ(http.requests.size(), 0U);
  EXPECT_THAT(delivery->problem(), HasSubstr("tls.ca"));
}

}  // namespace
}  // namespace moonfence::app
