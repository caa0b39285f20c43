#include "policy/kit/reference.h"

#include <algorithm>
#include <array>
#include <span>

#include "policy/host/keys.h"
#include "policy/input/inputs.h"
#include "policy/lua/library.h"

namespace moonfence::policy {
namespace {

// The end of the text that begins at `from` and ends at the first of `ends` outside of brackets.
std::size_t end_of(std::string_view text, std::size_t from, std::string_view ends) {
  int depth = 0;
  for (std::size_t i = from; i < text.size(); ++i) {
    const char c = text[i];
    if (depth == 0 && ends.find(c) != std::string_view::npos) {
      return i;
    }
    depth += c == '(' || c == '<' || c == '{' ? 1 : 0;
    depth -= c == ')' || c == '>' || c == '}' ? 1 : 0;
  }
  return text.size();
}

std::string_view without_space(std::string_view text) {
  const auto begin = text.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

ParameterReference parameter_of(std::string_view text) {
  const auto colon = text.find(':');
  ParameterReference parameter{.name = text.substr(0, colon),
                               .type = without_space(text.substr(colon + 1))};
  if (parameter.name.ends_with('?')) {
    parameter.name.remove_suffix(1);
    parameter.optional = true;
  }
  return parameter;
}

// "(a: string, b?: integer): string"
FunctionReference function_of(const Library& library, const HostFunction& function) {
  FunctionReference reference{.library = library.name,
                              .name = function.name,
                              .signature = function.signature,
                              .doc = function.doc};
  const std::string_view text = reference.signature;
  std::size_t at = 1;
  while (at < text.size() && text[at - 1] != ')') {
    const std::size_t end = end_of(text, at, ",)");
    if (end > at) {
      reference.parameters.push_back(parameter_of(without_space(text.substr(at, end - at))));
    }
    at = end + 1;
  }
  if (at < text.size() && text[at] == ':') {
    reference.returns = without_space(text.substr(at + 1));
  }
  return reference;
}

ObjectReference object_of(const Shape& shape) {
  ObjectReference object{.class_name = shape.class_name, .doc = shape.doc};
  for (const Field& field : shape.fields) {
    object.fields.push_back(
        {.name = field.name, .type = field.type, .doc = field.doc, .need = to_string(field.need)});
  }
  return object;
}

TableReference table_of(std::string_view class_name, std::string_view doc,
                        std::span<const Key> keys) {
  TableReference table{.class_name = class_name, .doc = doc};
  for (const Key& key : keys) {
    table.keys.push_back(
        {.name = key.name, .type = key.type, .doc = key.doc, .required = key.required});
  }
  return table;
}

std::vector<TableReference> tables() {
  return {
      table_of("PolicySpec", "The argument of policy{}.", kPolicyKeys),
      table_of("FencerSpec", "The argument of fencer{}.", kFencerKeys),
      table_of("PolicySelect", "Which pods a policy is asked about.", kSelectKeys),
      table_of("PolicySetting", "One setting that a binding may set.", kSettingKeys),
      table_of("PolicyTrigger", "When a node counts as down.", kTriggerKeys),
      table_of("PolicySource", "A policy's own source of node health.", kSourceKeys),
      table_of("ListOptions", "Options of fence.list.", kListOptionKeys),
      table_of("DeleteOptions", "Options of fence.delete_pod.", kDeleteOptionKeys),
      table_of("ProofOptions", "Options of fence.taint_out_of_service.", kProofOptionKeys),
      table_of("ReleaseOptions", "Options of fence.delete_pod_and_attachments.",
               kReleaseOptionKeys),
      table_of("AttachmentOptions", "Options of fence.delete_attachments.", kAttachmentOptionKeys),
  };
}

void add_functions(Reference& all, const Library& library) {
  for (const HostFunction& function : library.functions) {
    all.functions.push_back(function_of(library, function));
    if (*library.name == '\0') {
      all.globals.push_back({.name = function.name, .doc = function.doc});
    }
  }
  for (const std::string_view constant : library.constants) {
    all.constants.push_back({.library = library.name, .name = constant});
  }
  if (*library.name != '\0') {
    all.globals.push_back({.name = library.name, .doc = ""});
  }
}

}  // namespace

std::string FunctionReference::full_name() const {
  return (library.empty() ? "" : std::string(library) + ".") + std::string(name);
}

Reference reference() {
  Reference all;
  for (const Library* library : libraries()) {
    add_functions(all, *library);
  }
  std::sort(all.globals.begin(), all.globals.end(),
            [](const WordReference& a, const WordReference& b) { return a.name < b.name; });
  for (const auto shapes : {pod_shapes(), node_shapes()}) {
    for (const Shape* shape : shapes) {
      all.objects.push_back(object_of(*shape));
    }
  }
  all.opaque = {
      {"Verdict", "A decision about a pod; made by fence.* inside of pod()."},
      {"NodeVerdict", "A decision about a node; made by fence.* inside of node()."},
      {"Request", "Something to read; made by fence.http, fence.get, fence.list and fence.try."},
      {"Policy", "What policy{} returns and the file has to return."},
      {"Settings", "The policy's settings by name; a duration as its number of seconds."},
      {"Answer",
       "{ status = 200, body = ... }: decoded JSON, read-only; null is nil. One to fence.try may "
       "be a "
       "failure: error is timeout, unreachable, status, unauthorized, not_json or too_large (else "
       "nil), message says it in words, since is for how many seconds the request has failed in a "
       "row, status is that of HTTP if there was one, code the service's own word if it is one of "
       "AWS; reading its body is an error."},
      {"Raw", "The JSON of an API object, read by :get(path)."},
  };
  all.tables = tables();
  all.needs = {
      {"volumes", "pod.volumes and pod.claims: claim, PersistentVolume, VolumeAttachment"},
      {"placement", "pod.placement: the nodes that could take the pod"},
      {"root_owner", "pod.root_owner and pod.owner_chain: the controllers above the pod"},
      {"siblings", "pod.siblings: the pods that use the same claims"},
  };
  all.setting_types = {
      {"string", "a text of at most 1024 bytes"},
      {"integer", "an integer; min, max, clamp"},
      {"number", "a finite number; min, max, clamp"},
      {"boolean", "true or false"},
      {"duration",
       "a text such as 90s or 1h30m, a number of seconds to the script; min, max, clamp"},
      {"enum", "one of its values"},
      {"list", "at most 256 items of the type `of`: string, integer or number"},
  };
  return all;
}

}  // namespace moonfence::policy
