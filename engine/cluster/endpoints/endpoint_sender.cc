#include "cluster/endpoints/endpoint_sender.h"

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

// What it says of a success is no reason to doubt the success.
Result<nlohmann::json> read_leniently(std::string_view body) {
  auto read = kube::parse_json(body);
  return read ? *std::move(read) : nlohmann::json();
}

}  // namespace

EndpointSender::EndpointSender(const Endpoints::Surroundings& around, std::string name,
                               EndpointRules rules)
    : name_(std::move(name)),
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
  request.body = std::move(letter.body);
  request.content_type = std::move(letter.content_type);
  request.timeout = rules_.timeout;
  request.may_send = std::move(letter.may_send);
  request.ignores_body = letter.heard == nullptr;
  request.reads = read_leniently;
  request.logs_warnings = false;
  return caller_.call(std::move(request),
                      [this, done, heard = std::move(letter.heard)](Result<kube::ApiReply> reply) {
                        if (reply && heard) {
                          heard(reply->body);
                        }
                        done(reply ? Result<void>() : failure(told(std::move(reply.error()))));
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
