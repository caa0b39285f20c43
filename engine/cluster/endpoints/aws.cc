#include "cluster/endpoints/aws.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cluster/endpoints/secret_file.h"
#include "cluster/endpoints/xml.h"
#include "kube/text/json.h"
#include "kube/wire/url.h"

namespace moonfence::cluster {
namespace {

using nlohmann::json;

constexpr std::string_view kAction = "Action";

// The one action that is named; Invalid when it is none or several, however the name is written.
Result<std::string> action_of(const kube::Query& parameters) {
  const std::string* found = nullptr;
  std::size_t named = 0;
  for (const auto& [name, value] : parameters) {
    named += lower_cased(name) == "action" ? 1U : 0U;
    found = name == kAction ? &value : found;
  }
  if (found == nullptr || named != 1) {
    return failure(Error::Kind::Invalid, "exactly one of its parameters must be called Action");
  }
  return *found;
}

bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  });
}

}  // namespace

Result<AwsIdentity> aws_identity(port::Files& files, const AwsRules& rules) {
  auto access_key = read_secret(files, rules.access_key_file);
  if (!access_key) {
    return failure(std::move(access_key.error()));
  }
  auto secret_key = read_secret(files, rules.secret_key_file);
  if (!secret_key) {
    return failure(std::move(secret_key.error()));
  }
  AwsIdentity identity{.signature = std::make_shared<const port::AwsSignature>(
                           port::AwsSignature{.region = rules.region,
                                              .service = rules.service,
                                              .access_key = *std::move(access_key),
                                              .secret_key = *std::move(secret_key)}),
                       .headers = {}};
  if (!rules.session_token_file.empty()) {
    auto token = read_secret(files, rules.session_token_file);
    if (!token) {
      return failure(std::move(token.error()));
    }
    identity.headers.push_back({"X-Amz-Security-Token", *std::move(token)});
  }
  return identity;
}

Result<AwsCall> aws_question(std::string_view path) {
  const std::size_t mark = path.find('?');
  const kube::Query parameters =
      kube::decoded_query(mark == path.npos ? std::string_view() : path.substr(mark + 1));
  auto action = action_of(parameters);
  if (!action) {
    return failure(std::move(action.error()));
  }
  if (path.substr(0, mark) != "/" || !action->starts_with("Describe") || !is_word(*action)) {
    return failure(Error::Kind::Invalid, "Action=" + escaped(*action, 64) + " at " +
                                             escaped(path.substr(0, mark), 64) +
                                             " is no question: of a service of AWS only actions "
                                             "at / that begin with Describe are asked");
  }
  return AwsCall{.action = *std::move(action), .form = kube::encoded_query(parameters)};
}

Result<AwsCall> aws_order(std::string_view path, std::string_view parameters) {
  const auto body = kube::parse_json(parameters);
  if (path != "/" || !body || !body->is_object()) {
    return failure(Error::Kind::Invalid, "an order to a service of AWS is a table sent to /");
  }
  kube::Query form;
  std::size_t machines = 0;
  bool keeps_memory = false;
  for (const auto& [name, value] : body->items()) {
    form.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
    const std::string lower = lower_cased(name);
    machines += lower.starts_with("instanceid") ? 1U : 0U;
    keeps_memory = keeps_memory || lower == "hibernate";
  }
  auto action = action_of(form);
  if (!action) {
    return failure(std::move(action.error()));
  }
  if (*action != "StopInstances" || machines != 1 || keeps_memory) {
    return failure(Error::Kind::Invalid,
                   "Action=" + escaped(*action, 64) +
                       " is refused: a service of AWS is told StopInstances of one InstanceId "
                       "without Hibernate, and nothing else");
  }
  return AwsCall{.action = *std::move(action), .form = kube::encoded_query(form)};
}

std::string aws_error_code(std::string_view body) {
  const auto parsed = parse_xml(body);
  if (!parsed) {
    return {};
  }
  std::string code = kube::text_at(*parsed, "/Response/Errors/Error/Code");
  const auto words = split(code, '.');
  return std::all_of(words.begin(), words.end(), is_word) ? code : std::string();
}

}  // namespace moonfence::cluster
