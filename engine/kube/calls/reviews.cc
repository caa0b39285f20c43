#include "kube/calls/reviews.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "kube/text/json.h"

namespace moonfence::kube {
namespace {

ApiRequest review(const char* path, const nlohmann::json& object) {
  ApiRequest request;
  request.method = port::Method::Post;
  request.path = path;
  request.body = to_text(object);
  request.content_type = "application/json";
  request.only_asks = true;
  // What guests cause keeps neither a deletion nor a list waiting.
  request.lane = port::Lane::Guests;
  return request;
}

// Of an array; what is no string is left out, so that nobody gets a group that was not given.
std::vector<std::string> texts_of(const nlohmann::json* array) {
  std::vector<std::string> texts;
  if (array != nullptr && array->is_array()) {
    for (const nlohmann::json& each : *array) {
      if (each.is_string()) {
        texts.push_back(each.get<std::string>());
      }
    }
  }
  return texts;
}

Result<std::optional<ReviewedUser>> user_of(const nlohmann::json& answer) {
  Fields fields(answer);
  if (!fields.boolean({"status", "authenticated"})) {
    return fields.fault() ? Result<std::optional<ReviewedUser>>(failure(*fields.fault()))
                          : Result<std::optional<ReviewedUser>>(std::nullopt);
  }
  ReviewedUser user{.name = fields.required({"status", "user", "username"}),
                    .uid = fields.string({"status", "user", "uid"}),
                    .groups = texts_of(fields.array({"status", "user", "groups"})),
                    .extra = {}};
  if (const nlohmann::json* extra = fields.object({"status", "user", "extra"})) {
    for (const auto& [key, values] : extra->items()) {
      user.extra[key] = texts_of(&values);
    }
  }
  if (fields.fault()) {
    return failure(*fields.fault());
  }
  return user;
}

}  // namespace

CallHandle review_token(Caller& caller, const std::string& token,
                        std::function<void(Result<std::optional<ReviewedUser>>)> done) {
  return caller.call(review("/apis/authentication.k8s.io/v1/tokenreviews",
                            {{"kind", "TokenReview"},
                             {"apiVersion", "authentication.k8s.io/v1"},
                             {"spec", {{"token", token}}}}),
                     [done = std::move(done)](Result<ApiReply> reply) {
                       if (!reply) {
                         done(failure(std::move(reply.error())));
                       } else {
                         done(user_of(reply->body));
                       }
                     });
}

CallHandle review_access(Caller& caller, const ReviewedUser& user, const std::string& path,
                         std::function<void(Result<bool>)> done) {
  nlohmann::json spec = {{"nonResourceAttributes", {{"path", path}, {"verb", "get"}}},
                         {"user", user.name},
                         {"uid", user.uid},
                         {"groups", user.groups}};
  if (!user.extra.empty()) {
    spec["extra"] = user.extra;
  }
  return caller.call(review("/apis/authorization.k8s.io/v1/subjectaccessreviews",
                            {{"kind", "SubjectAccessReview"},
                             {"apiVersion", "authorization.k8s.io/v1"},
                             {"spec", std::move(spec)}}),
                     [done = std::move(done)](Result<ApiReply> reply) {
                       if (!reply) {
                         done(failure(std::move(reply.error())));
                         return;
                       }
                       Fields fields(reply->body);
                       // An answer with both says no.
                       const bool denied = fields.boolean({"status", "denied"});
                       const bool allowed = fields.boolean({"status", "allowed"});
                       if (fields.fault()) {
                         done(failure(*fields.fault()));
                       } else {
                         done(allowed && !denied);
                       }
                     });
}

}  // namespace moonfence::kube
