-- row: 49
-- where: pod
-- expect: error
-- says: must be the reason
return fence.delete_pod(5)
