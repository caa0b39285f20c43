// What the shipped policies rely on when attachments and pods go different ways.

#include "unit/fence/storage_fixture.h"

namespace moonfence::fence {
namespace {

using StorageRowsTest = StorageTest;

TEST_F(StorageRowsTest, so_26_an_attachment_of_another_attacher_stays_and_the_pod_goes) {
  const std::string attachment = add_pod_with_volume("web-0");
  attachments[attachment]["spec"]["attacher"] = "other.example.com";
  take_up_nodes(detaching_policy());
  run_incident();
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  EXPECT_EQ(attachments.size(), 1U);
}

TEST_F(StorageRowsTest, so_29_attachments_stay_in_a_pass_in_which_their_pod_was_not_deleted) {
  const std::string attachment = add_pod_with_volume("web-0");
  scripts["web-0"] = {broken()};
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(12s);
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "pod web-0", "pod web-0"}));
  scripts.clear();
  run_for(5s);
  EXPECT_EQ(deleted().back(), "attachment " + attachment);
}

}  // namespace
}  // namespace moonfence::fence
