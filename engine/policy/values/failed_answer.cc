#include "policy/values/failed_answer.h"

namespace moonfence::policy {

nlohmann::json answer_json(int status, const nlohmann::json* body) {
  nlohmann::json answer = {{"status", status}};
  if (body != nullptr) {
    answer["body"] = *body;
  }
  return answer;
}

nlohmann::json tried_json(int status, const nlohmann::json* body) {
  nlohmann::json answer = answer_json(status, body);
  for (const char* field : {"error", "message", "since", "code"}) {
    answer[field] = nullptr;
  }
  return answer;
}

nlohmann::json failed_json(const FailedAnswer& failed) {
  nlohmann::json answer = {
      {"error", failed.error}, {"message", failed.message}, {"since", failed.since}};
  answer["status"] = failed.status ? nlohmann::json(*failed.status) : nlohmann::json();
  answer["code"] = failed.code.empty() ? nlohmann::json() : nlohmann::json(failed.code);
  return answer;
}

}  // namespace moonfence::policy
