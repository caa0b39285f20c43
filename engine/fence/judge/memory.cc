#include "fence/judge/memory.h"

#include "fence/rules/adopted.h"

namespace moonfence::fence {

bool concerns(const Memory& memory, const Reading& reading, const kube::Pod& pod) {
  if (!memory.left_behind) {
    return concerns(reading, pod);
  }
  const auto known = memory.left_behind->pods.find(pod.uid);
  return concerns(reading, pod) && known != memory.left_behind->pods.end() &&
         (pod.raw == nullptr || starts_of(*pod.raw) == known->second);
}

}  // namespace moonfence::fence
