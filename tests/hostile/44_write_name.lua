-- row: 44
-- where: pod
-- expect: error
-- says: read-only
pod.name = 'other'
