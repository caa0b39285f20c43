-- row: 3
-- where: pod
-- expect: instructions
::a:: goto a
