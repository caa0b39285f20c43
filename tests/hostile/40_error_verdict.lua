-- row: 40
-- where: pod
-- expect: error
-- says: raised a userdata value
error(fence.delete_pod('x'))
