-- row: 44
-- where: pod
-- expect: error
-- says: read-only
pod.labels.x = 'y'
