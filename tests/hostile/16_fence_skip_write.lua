-- row: 16
-- where: pod
-- expect: error
-- says: cannot set 'skip' of 'fence'
fence.skip = fence.delete_pod
