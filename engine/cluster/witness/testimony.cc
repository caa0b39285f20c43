#include "cluster/witness/testimony.h"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "kube/text/json.h"

namespace moonfence::cluster {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;
constexpr std::array kKernels = {Kernel::NotObservable, Kernel::Answers, Kernel::Unsure,
                                 Kernel::Silent};
// Whoever was not heard for longer was not heard for ever.
constexpr std::int64_t kLongestQuiet = std::int64_t{10} * 365 * 24 * 3600 * 1000;

std::int64_t milliseconds_in(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

Error malformed(std::string text) {
  return {.kind = Error::Kind::Malformed, .text = "the testimony " + std::move(text)};
}

// A number between zero and `most`; nullopt: there is none, or another.
std::optional<std::int64_t> number_in(const json& object, const char* key, std::int64_t most) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer() || *found < 0 || *found > most) {
    return std::nullopt;
  }
  return found->get<std::int64_t>();
}

std::string text_in(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<Testimony::Machine> machine_of(const json& told) {
  constexpr std::int64_t kMostQuestions = 0xFFFFFFFF;
  if (!told.is_object()) {
    return std::nullopt;
  }
  const std::string word = text_in(told, "kernel");
  const auto kernel = std::find_if(kKernels.begin(), kKernels.end(),
                                   [&word](Kernel each) { return to_string(each) == word; });
  const auto unanswered = number_in(told, "unanswered", kMostQuestions);
  const auto quiet = number_in(told, "quietMs", kLongestQuiet);
  if (kernel == kKernels.end() || !unanswered || (told.contains("quietMs") && !quiet)) {
    return std::nullopt;
  }
  Testimony::Machine machine{
      .kernel = *kernel, .quiet = {}, .unanswered = static_cast<std::uint32_t>(*unanswered)};
  if (quiet) {
    machine.quiet = std::chrono::milliseconds(*quiet);
  }
  return machine;
}

Result<Testimony> testimony_in(const json& told) {
  Testimony testimony;
  testimony.nonce = text_in(told, "nonce");
  const auto well = told.find("well");
  const auto machines = told.find("machines");
  if (!is_nonce(testimony.nonce) || well == told.end() || !well->is_boolean() ||
      machines == told.end() || !machines->is_object()) {
    return failure(malformed("lacks nonce, well or machines"));
  }
  testimony.is_well = well->get<bool>();
  for (const auto& [name, each] : machines->items()) {
    const auto machine = machine_of(each);
    if (!machine) {
      return failure(malformed("of node " + escaped(name, 64) + " makes no sense"));
    }
    testimony.machines.emplace(NodeName(name), *machine);
  }
  return testimony;
}

}  // namespace

bool is_nonce(std::string_view text) {
  constexpr std::size_t kDigits = 32;
  return text.size() == kDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string question_path(std::string_view nonce, const std::vector<NodeName>& nodes) {
  std::string path = "/witness?nonce=" + std::string(nonce) + "&nodes=";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    path += (i == 0 ? "" : ",") + nodes[i].text();
  }
  return path;
}

std::string to_answer(const Testimony& testimony, const SigningKey& key) {
  json machines = json::object();
  for (const auto& [name, machine] : testimony.machines) {
    json& told = machines[name.text()];
    told = {{"kernel", to_string(machine.kernel)}, {"unanswered", machine.unanswered}};
    if (machine.quiet) {
      told["quietMs"] = std::min(milliseconds_in(*machine.quiet), kLongestQuiet);
    }
  }
  const std::string statement = kube::to_text({{"version", kVersion},
                                               {"nonce", testimony.nonce},
                                               {"well", testimony.is_well},
                                               {"machines", std::move(machines)}});
  return kube::to_text({{"statement", statement}, {"signature", key.sign(statement)}});
}

Result<Testimony> testimony_of(std::string_view answer, std::string_view public_key) {
  const auto envelope = kube::parse_json(answer);
  if (!envelope || !envelope->is_object()) {
    return failure(malformed("is no JSON object"));
  }
  const std::string statement = text_in(*envelope, "statement");
  if (!is_signed_by(public_key, statement, text_in(*envelope, "signature"))) {
    return failure(Error::Kind::Unauthorized,
                   "the testimony is not signed with the key that the replica has told");
  }
  const auto told = kube::parse_json(statement);
  if (!told || !told->is_object()) {
    return failure(malformed("states no JSON object"));
  }
  if (told->value("version", json()) != kVersion) {
    return failure(Error::Kind::Invalid,
                   "the replica is of another version: its testimony is not understood");
  }
  return testimony_in(*told);
}

}  // namespace moonfence::cluster
