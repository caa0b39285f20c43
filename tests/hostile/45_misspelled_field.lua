-- row: 45
-- where: pod
-- expect: error
-- says: did you mean 'labels'?
return pod.lables
