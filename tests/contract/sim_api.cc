#include <deque>

#include "contract/api_under_test.h"
#include "sim/server/api_server.h"
#include "support/fake_poller.h"
#include "support/fake_random.h"

namespace moonfence::contract {
namespace {

constexpr WallTime kStart = WallTime(std::chrono::seconds(1'800'000'000));
constexpr std::string_view kNobody = "nobody";

// In virtual time: waiting takes no time.
class SimApi final : public ApiUnderTest {
 public:
  SimApi() {
    for (const char* space : {"default", "kube-system"}) {
      (void)store_.create("namespaces", "", {{"metadata", {{"name", space}}}}, "admin");
    }
    server_.restart();  // older versions are forgotten, as they are by a server that has just begun
  }

  Reply send(const Request& request) override {
    sim::ServerRequest sent{.method = request.method,
                            .target = request.target,
                            .headers = request.headers,
                            .body = request.body,
                            .user = "admin"};
    if (!request.content_type.empty()) {
      sent.headers.push_back({"Content-Type", request.content_type});
    }
    for (const port::Header& header : request.headers) {
      if (header.name == "Impersonate-User") {
        sent.user = header.value;
      }
      sent.rejected = sent.rejected || header.name == "Authorization";
    }
    sim::ServerAnswer answer = server_.handle(sent, nullptr);
    pass(answer.took);
    return {.status = answer.status,
            .headers = std::move(answer.headers),
            .text = answer.body,
            .body = Json::parse(answer.body, nullptr, false)};
  }

  std::unique_ptr<Watch> watch(const std::string& target) override {
    return std::make_unique<SimWatch>(*this, target);
  }

  void pass(Duration time) override { test::run_for(loop_, time); }

  bool compact() override {
    server_.compact();
    return true;
  }

 private:
  class SimWatch final : public Watch, private sim::WatchSink {
   public:
    SimWatch(SimApi& api, const std::string& target) : api_(api) {
      answer_ = api.server_.handle({.target = target, .user = "admin"}, this);
    }

    std::optional<Json> next(Duration limit) override {
      test::run_until(
          api_.loop_, [this] { return !lines_.empty() || ended_; }, limit);
      if (lines_.empty()) {
        return std::nullopt;
      }
      Json event = Json::parse(lines_.front(), nullptr, false);
      lines_.pop_front();
      return event;
    }
    bool ended(Duration limit) override {
      test::run_until(
          api_.loop_, [this] { return ended_; }, limit);
      return ended_ && lines_.empty();
    }

   private:
    void on_line(std::string_view line) override { lines_.emplace_back(line); }
    void on_end() override { ended_ = true; }

    SimApi& api_;
    std::deque<std::string> lines_;
    bool ended_ = false;
    sim::ServerAnswer answer_;
  };

  [[nodiscard]] WallTime now() const { return kStart + loop_.now().time_since_epoch(); }

  static sim::ServerRules rules() {
    sim::ServerRules rules;
    rules.watch_list = rules.shared_versions = true;
    rules.authorize = [](const std::string& user, std::string_view verb,
                         const std::string& resource, const std::string& space) {
      return user == kNobody ? sim::denial(user, verb, resource, space) : std::string();
    };
    return rules;
  }

  test::FakePoller poller_;
  loop::Loop loop_{poller_};
  test::FakeRandom random_;
  sim::ObjectStore store_{[this] { return now(); }, random_};
  sim::ApiServer server_{loop_, store_, random_, [this] { return now(); }, rules()};
};

}  // namespace

std::unique_ptr<ApiUnderTest> make_sim_api() {
  return std::make_unique<SimApi>();
}

}  // namespace moonfence::contract
