#include "cluster/endpoints/endpoint_sender.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "kube/text/json.h"

namespace moonfence::cluster {
namespace {

// Where the path of "https://host:port/path" begins.
std::size_t path_of(const std::string& url) {
  const std::size_t host = url.find("://") + 3;
  return std::min(url.find('/', host), url.size());
}

// A letter under way.
class Sending final : public kube::ApiCall, private kube::StreamSink {
 public:
  Sending(loop::Loop& loop, kube::Caller& caller, kube::ApiRequest request,
          std::function<void(const nlohmann::json&)> heard, EndpointSender::Done done)
      : loop_(loop),
        heard_(std::move(heard)),
        done_(std::move(done)),
        call_(caller.stream(std::move(request), *this)) {}
  Sending(const Sending&) = delete;
  Sending& operator=(const Sending&) = delete;
  ~Sending() override = default;

 private:
  void on_open() override {
    is_taken_ = true;
    patience_ = loop_.after(EndpointSender::kPatience, [this] { end({}); });
  }
  // Read to its end also where nobody hears it: else its connection could not be used again.
  void on_bytes(std::string_view bytes) override {
    size_ += bytes.size();
    if (size_ > EndpointSender::kLongestAnswer) {
      body_.clear();
      patience_ = loop_.after(Duration::zero(), [this] { end({}); });
    } else if (heard_) {
      body_ += bytes;
    }
  }
  void on_close(const Result<void>& outcome) override { end(outcome); }

  void end(const Result<void>& outcome) {
    const EndpointSender::Done done = std::exchange(done_, nullptr);
    if (!done) {
      return;  // it has ended
    }
    patience_.cancel();
    if (is_taken_ && heard_) {
      auto answer = kube::parse_json(body_);
      heard_(answer ? *answer : nlohmann::json());
    }
    done(is_taken_ ? Result<void>() : outcome);  // we may die in it
  }

  loop::Loop& loop_;
  std::function<void(const nlohmann::json&)> heard_;
  EndpointSender::Done done_;
  bool is_taken_ = false;
  std::size_t size_ = 0;
  std::string body_;
  loop::Timer patience_;
  kube::CallHandle call_;
};

}  // namespace

EndpointSender::EndpointSender(const Endpoints::Surroundings& around, std::string name,
                               EndpointRules rules)
    : loop_(around.loop),
      name_(std::move(name)),
      rules_(std::move(rules)),
      path_(rules_.url.substr(path_of(rules_.url))),
      access_(around, name_, rules_),
      caller_(around.loop, access_.http(), *this, silence_,
              rules_.url.substr(0, path_of(rules_.url)), around.user_agent) {
  if (path_.empty()) {
    path_ = "/";
  }
}

kube::CallHandle EndpointSender::send(Letter letter, const Done& done) {
  headers_ = std::move(letter.headers);
  kube::ApiRequest request;
  request.method = port::Method::Post;
  request.path = path_;
  request.path_as_given = true;
  request.body = std::move(letter.body);
  request.content_type = std::move(letter.content_type);
  request.timeout = rules_.timeout;
  request.may_send = std::move(letter.may_send);
  request.ignores_body = true;
  request.logs_warnings = false;
  return std::make_unique<Sending>(
      loop_, caller_, std::move(request), std::move(letter.heard),
      [this, done](const Result<void>& outcome) {
        done(outcome ? Result<void>() : failure(told(outcome.error())));
      });
}

void EndpointSender::headers(Ready ready) {
  access_.headers([this, ready = std::move(ready)](Result<std::vector<port::Header>> shown) {
    if (shown) {
      shown->insert(shown->end(), headers_.begin(), headers_.end());
    }
    ready(std::move(shown));
  });
}

Error EndpointSender::told(Error error) const {
  if (error.http_status != 0) {
    error.text = "HTTP " + std::to_string(error.http_status);
  } else if (const std::string place = "POST " + escaped(path_, 512) + ": ";
             error.text.starts_with(place)) {
    error.text.erase(0, place.size());
  }
  error.hint.clear();  // speaks of the API server
  error.reason.clear();
  return std::move(error).within(name_);
}

}  // namespace moonfence::cluster
