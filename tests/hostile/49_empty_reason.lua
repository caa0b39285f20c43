-- row: 49
-- where: pod
-- expect: error
-- says: an empty text tells nobody why
return fence.delete_pod('')
